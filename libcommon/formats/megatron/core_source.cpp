#include "formats/megatron/core_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "formats/hugging_face/hugging_face_source.h"
#include "formats/megatron/run_config.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/model_table.h"
#include "model/row_checkpoint.h"

namespace mt {

constexpr std::string_view kState = "optimizer.state.";

PyValue with_vocabulary(const PyValue& args, std::optional<std::int64_t> given,
                        const std::string& where) {
  const PyValue* stored = args.find("vocab_size");
  if (stored != nullptr && !stored->is_none() && !given) return args;
  const PyValue& padded = args.at("padded_vocab_size", where);
  if (given && *given > padded.as_integer(where + ": args.padded_vocab_size"))
    fail(Exit::bad_config, "--true-vocab-size ", *given, ": ", where, ": the model has ",
         padded.as_integer(where), " rows for tokens");
  PyValue known = PyValue::dict();
  const std::vector<PyValue>& entries = args.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (!(entries[i] == PyValue("vocab_size"))) known.set_item(entries[i], entries[i + 1]);
  known.set_item("vocab_size", given ? PyValue(*given) : padded);
  return known;
}

CoreSource::CoreSource(const std::string& folder, const ModelSourceOptions& options)
    : checkpoint_(folder, {.while_reading = options.check_while_reading}) {
  path_ = folder;
  format_ = "torch_dist";
  common_ = checkpoint_.common();
  const std::string where = folder + ": common.pt";
  const PyValue args = read_args();
  const auto has_tensor = [&](const std::string& name) {
    return checkpoint_.tensors().find(name) != nullptr;
  };
  *config_ = model_config_of(with_vocabulary(args, options.vocab_size, where), has_tensor, where);
  dtype_ = dtype_of_args(args, where);
  manifest_extra_ = checkpoint_.manifest_extra();
  if (std::filesystem::is_directory(folder + "/tokenizer")) {
    companions_ = companions_in(folder + "/tokenizer");
    if (tokenizer_of_manifest(manifest_extra_).type.empty())
      take_tokenizer(read_tokenizer_in(folder + "/tokenizer"));
  }
  for (const auto& [key, tensor] : checkpoint_.tensors().tensors()) {
    const std::size_t at = key.find(kState);
    if (at == std::string::npos) continue;
    is_reformulated_ = is_reformulated_ || tensor.original_shape;
    chains_.insert(key.substr(0, at));
    const std::string rest = key.substr(at + kState.size()), own = rest.substr(0, rest.find('.')),
                      name = own == "param" ? "fp32_param" : own;
    is_reshardable_ = is_reshardable_ || own == "param";
    if (std::find(states_.begin(), states_.end(), name) == states_.end()) states_.push_back(name);
  }
  if (options.with_optimizer) find_buckets();
}

PyValue CoreSource::read_args() {
  const std::string path = concat(path_, "/", kRunConfig);
  if (common_.find("args") != nullptr || !std::filesystem::exists(path))
    return common_.at("args", path_ + ": common.pt");
  const Shape& words = checkpoint_.tensors().at("embedding.word_embeddings.weight").own_shape();
  PyValue args = args_of_run_config(read_regular_file(path), words[0], path);
  common_.set_item("args", args);
  notes_.push_back(
      concat(path_, ": is of Megatron Bridge's; its model is what ", kRunConfig, " says"));
  return args;
}

// Their optimizer has tensors of its own, a gradient scaler's.
void CoreSource::find_buckets() {
  const std::string type = sharding_type(common_, path_);
  if (!is_by_buckets(type)) return;
  buckets_.emplace(checkpoint_.tensors(), *config_, common_.at("args", path_), type);
  states_ = {"", "fp32_param", "exp_avg", "exp_avg_sq"};
  TorchWriter writer;
  const KeepTensor keep = [&](ConstTensor tensor) { return writer.tensor(tensor); };
  PyValue common = copied_value(common_, *checkpoint_.common_tensors(), keep);
  common.set_item("optimizer", buckets_->common_optimizer(keep));
  writer.write(common, "common", [&](Bytes bytes) { common_file_ += as_text(bytes); });
  with_buckets_.emplace(as_bytes(common_file_), path_ + ": common state");
  common_ = with_buckets_->value();
  check_buckets(type);
}

// The fp32 values are those of the weights, unless they lie elsewhere.
void CoreSource::check_buckets(const std::string& type) const {
  const ParamTable table = model_rows(*config_);
  for (const Param& row : table.rows()) {
    if (row.is_buffer || !buckets_->is_telling(row)) continue;
    const DType dtype = dtype_of(row, "");
    const std::size_t bytes = static_cast<std::size_t>(row.shape.numel()) * size_of(dtype);
    const Buffer weight(Device::cpu, bytes), master(Device::cpu, bytes);
    read(row, "", weight.tensor(dtype, row.shape));
    read(row, "fp32_param", master.tensor(dtype, row.shape));
    if (std::memcmp(weight.data(), master.data(), bytes) != 0)
      fail(Exit::bad_data, path_, ": ", row.name(), ": the optimizer's fp32 values in ", type,
           " are not the weight's: was it written with other buckets than args say?");
  }
}

std::string CoreSource::key_of(const std::string& state, const std::string& key) const {
  const std::string plain = state_prefix(state) + key;
  for (const std::string& chain : chains_)
    if (!state.empty() && checkpoint_.tensors().find(chain + plain) != nullptr)
      return chain + plain;
  return is_reshardable_ && state == "fp32_param" ? key_of("param", key) : plain;
}

// Where layers differ, or are said to, each has keys of its own.  The norm in front of experts has
// two names.
std::vector<KeyPart> CoreSource::parts_of(const Param& row, const std::string& state) const {
  KeySpelling spelling{.of_state = !state.empty()};
  constexpr std::pair<bool, bool> kOthers[] = {
      {false, false}, {false, true}, {true, false}, {true, true}};
  for (const auto& [numbered, dense_norms] : kOthers) {
    const KeySpelling other{spelling.of_state, numbered, dense_norms};
    if (checkpoint_.tensors().find(mt::key_of(row, other)) == nullptr) continue;
    spelling = other;
    break;
  }
  std::vector<KeyPart> parts = key_parts(row, spelling);
  for (KeyPart& part : parts) part.key = key_of(state, part.key);
  return parts;
}

bool CoreSource::has_states(const Param& row) const {
  if (!ModelSource::has_states(row) || buckets_) return ModelSource::has_states(row);
  return std::ranges::any_of(states_, [&](const std::string& state) {
    return !state.empty() &&
           checkpoint_.tensors().find(parts_of(row, state).front().key) != nullptr;
  });
}

DType CoreSource::dtype_of(const Param& row, const std::string& state) const {
  if (buckets_ && !state.empty()) return buckets_->dtype_of(row, state);
  return *checkpoint_.tensors().at(parts_of(row, state).front().key).dtype;
}

void CoreSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (buckets_ && !state.empty()) return buckets_->read(row, state, out);
  read_parts(checkpoint_.tensors(), row, parts_of(row, state), out);
}

std::optional<MappedTensor> CoreSource::view(const Param& row, const std::string& state) const {
  const std::vector<KeyPart> parts = parts_of(row, state);
  if (parts.size() > 1 || (buckets_ && !state.empty())) return {};
  const DistReader& tensors = checkpoint_.tensors();
  const KeyPart& part = parts.front();
  if (!(tensors.at(part.key).own_shape() == part.whole)) return {};
  std::optional<MappedTensor> found = tensors.view(part.key, part.offset, part.chunk);
  if (found) found->tensor = found->tensor.reshape(row.shape);
  return found;
}

void CoreSource::check_all_used(const ParamTable& table) const {
  std::set<std::string> used;
  for (const Param& row : table.rows())
    for (KeyPart& part : parts_of(row, "")) used.insert(std::move(part.key));
  mt::check_all_used(checkpoint_.tensors(), used);
}

}  // namespace mt
