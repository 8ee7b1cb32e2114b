#include "formats/megatron/dcp_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "ckpt/checkpoint_manifest.h"
#include "ckpt/te_state.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/hugging_face/image_processor.h"
#include "formats/megatron/core_source.h"
#include "formats/megatron/rank_layout.h"
#include "formats/megatron/rank_optimizer.h"
#include "model/config/megatron_args.h"
#include "model/keys.h"
#include "model/model_table.h"

namespace mt {

namespace fs = std::filesystem;

constexpr const char* kArgs = "args";
constexpr std::string_view kOptimizer = "optimizer.";
constexpr std::size_t kMaxParts = 16;  // of a key of the state but the weights
// A model has the one, of words, or the other, of images.
constexpr std::string_view kWords = "embedding.word_embeddings.weight",
                           kPatches = "embedding.patch_embeddings.weight";

// What stands before the names of the weights; nothing if there are none of Megatron-Core's.
static std::optional<std::string> prefix_in(const TensorSource& tensors) {
  std::optional<std::string> prefix;
  for (const auto& [key, tensor] : tensors.tensors()) {  // an optimizer's are longer
    const std::string_view embedding = key.ends_with(kPatches) ? kPatches : kWords;
    std::string before = key.substr(0, key.size() - std::min(key.size(), embedding.size()));
    for (const std::string_view part :
         {"query_model.", "context_model.", "shared_model.", "language_model.", "vision_model."})
      if (before.ends_with(part)) before.resize(before.size() - part.size());
    const bool found = key.ends_with(embedding) && (before.empty() || before.ends_with('.'));
    if (found && (!prefix || before.size() < prefix->size())) prefix = before;
  }
  return prefix;
}

static bool is_core_dcp(const std::string& folder, bool with_args) {
  if (!fs::exists(folder + "/.metadata") || fs::exists(folder + "/metadata.json")) return false;
  const DistReader reader(folder);
  return prefix_in(reader) && (!with_args || reader.objects().contains(kArgs));
}

bool is_core_dcp(const std::string& folder) { return is_core_dcp(folder, false); }
bool is_core_dcp_with_args(const std::string& folder) { return is_core_dcp(folder, true); }

DcpSource::DcpSource(const std::string& folder, const ModelSourceOptions& options)
    : tensors_(folder) {
  path_ = folder;
  format_ = "torch_dcp";
  if (const auto manifest = read_checkpoint_manifest(folder)) {
    for (const FileHash& listed : manifest->files) verify_file(folder, listed, true);
    manifest_extra_ = manifest->extra;
  }
  const std::optional<std::string> prefix = prefix_in(tensors_);
  if (!prefix)
    fail(Exit::bad_data, folder, ": has no tensor ", kWords, " or ", kPatches,
         " of a Megatron model");
  prefix_ = *prefix;
  if (tensors_.objects().contains(kArgs))
    read_args(options);
  else if (fs::exists(folder + "/config.json"))
    read_config_json();
  else
    fail(Exit::bad_data, folder, ": says nothing of the model's settings: has no object ", kArgs,
         " and no config.json");
}

void DcpSource::read_args(const ModelSourceOptions& options) {
  const std::string where = path_ + ": " + kArgs;
  args_.emplace(tensors_.open_object(kArgs));
  const PyValue args = args_->value();
  const auto has_tensor = [&](const std::string& name) {
    return tensors_.find(prefix_ + name) != nullptr;
  };
  *config_ = model_config_of(with_vocabulary(args, options.vocab_size, where), has_tensor, where);
  dtype_ = dtype_of_args(args, where);
  if (fs::is_directory(path_ + "/tokenizer")) companions_ = companions_in(path_ + "/tokenizer");
  read_common(options.with_optimizer);
}

void DcpSource::read_config_json() {
  const std::string path = path_ + "/config.json";
  const HuggingFaceConfig stored = parse_hugging_face_config(read_regular_file(path), path);
  *config_ = stored.model;
  lacking_ = stored.lacking;
  notes_ = stored.notes;
  if (stored.dtype) dtype_ = *stored.dtype;
  if (stored.output_if_stored)
    config_->untie_embeddings_and_output_weights =
        tensors_.find(prefix_ + "output_layer.weight") != nullptr;
  if (reads_images(*config_)) read_image_processor(path_, *config_);
  try {
    config_->complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(path_);
  take_tokenizer(read_tokenizer_in(path_));
}

// --- The state but the weights ------------------------------------------------------------------

// What lies below a path, by the next part of the keys.
struct ItemTree {
  std::size_t number = 0;  // in the order of the files
  std::map<std::string, ItemTree> below;
  std::optional<PyValue> item;
};

// Numbers alone are places in a list, but of `state`, a dict by parameters.
static PyValue value_of(const ItemTree& tree, const std::string& name) {
  if (tree.item) return *tree.item;
  std::map<std::size_t, std::pair<std::string, PyValue>> named;
  std::map<std::int64_t, PyValue> numbered;
  for (const auto& [part, below] : tree.below) {
    const bool number = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (number)
      numbered[std::stoll(part)] = value_of(below, part);
    else
      named.try_emplace(below.number, part, value_of(below, part));
  }
  PyValue dict = PyValue::dict(), list = PyValue::list();
  for (const auto& [number, entry] : named) dict.set_item(entry.first, entry.second);
  for (const auto& [number, value] : numbered) {
    dict.set_item(number, value);
    list.append(value);
  }
  return numbered.empty() || !named.empty() || name == "state" ? dict : list;
}

// An object, a number, or the key of a tensor.
PyValue DcpSource::item(const std::string& key) const {
  const DistTensor* const tensor = tensors_.find(key);
  if (tensor == nullptr) return tensors_.read_object(key);
  if (tensor->shape.rank() > 0 || tensor->dtype != DType::f32) return key;
  float number = 0;
  tensors_.read(key, {}, {&number, DType::f32, {}});
  return static_cast<double>(number);
}

// Keys in the order of their items.
static std::vector<std::string> keys_in_order(const DistReader& tensors) {
  std::map<std::pair<std::string, std::uint64_t>, std::string> keys;
  for (const auto& [key, place] : tensors.objects()) keys[{place.file, place.offset}] = key;
  for (const auto& [key, tensor] : tensors.tensors())
    if (!tensor.chunks.empty())
      keys[{tensor.chunks[0].place.file, tensor.chunks[0].place.offset}] = key;
  std::vector<std::string> found;
  for (auto& [place, key] : keys) found.push_back(std::move(key));
  return found;
}

void DcpSource::read_common(bool with_optimizer) {
  ItemTree tree;
  for (const std::string& key : keys_in_order(tensors_)) {
    const bool is_tensor = tensors_.find(key) != nullptr,
               of_optimizer = key.starts_with(kOptimizer);
    if ((!prefix_.empty() && key.starts_with(prefix_)) || key.ends_with("_extra_state") ||
        key.starts_with("rng_state") || (of_optimizer ? !with_optimizer : is_tensor))
      continue;
    ItemTree* place = &tree;
    std::size_t begin = 0, parts = 0;
    for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
      if (++parts > kMaxParts) fail(Exit::bad_data, path_, ": ", key, ": is too deep");
      end = key.find('.', begin);
      const auto number = place->below.size();
      place = &place->below.try_emplace(key.substr(begin, end - begin), ItemTree{number, {}, {}})
                   .first->second;
    }
    place->item = item(key);
  }
  const auto optimizer = tree.below.extract("optimizer");
  common_ = value_of(tree, "");
  if (!optimizer.empty()) take_optimizer(value_of(optimizer.mapped(), ""));
}

void DcpSource::take_optimizer(const PyValue& optimizer) {
  if (optimizer.find("grad_scaler") != nullptr)
    fail(Exit::bad_data, path_, ": optimizer.grad_scaler: is not read from torch_dcp");
  const ParamTable table = model_rows(*config_);
  const bool local_spec = std::ranges::any_of(table.rows(), [&](const Param& row) {
    const RowPlace local = local_spec_place(row.place);
    return local != row.place && tensors_.find(prefix_ + local.name()) != nullptr;
  });
  std::vector<RankParam> params;
  for (const Param* row : registered_rows(table, ChunkLayers::all(*config_), {local_spec}, false))
    if (!row->is_buffer) params.push_back({row});
  find_rank_states(optimizer, params, path_);
  for (const RankParam& param : params)
    for (const auto& [state, value] : param.states) {
      if (!value.is(PyValue::Kind::string)) continue;
      state_keys_[{param.row->index, state}] = value.as_string(path_);
      if (std::ranges::find(states_, state) == states_.end()) states_.push_back(state);
    }
  common_.set_item("optimizer", common_optimizer(optimizer, false, path_));
}

// --- Tensors ------------------------------------------------------------------------------------

const DistTensor& DcpSource::stored(const Param& row, const std::string& state) const {
  if (!state.empty()) {
    const auto found = state_keys_.find({row.index, state});
    if (found == state_keys_.end())
      fail(Exit::bad_data, path_, ": has no ", state, " of ", row.name());
    return tensors_.at(found->second);
  }
  const DistTensor* const local = tensors_.find(prefix_ + local_spec_place(row.place).name());
  return tensors_.at(local != nullptr ? local->key : prefix_ + row.name());
}

bool DcpSource::is_lacking(const Param& row) const {
  return lacking_.has(row.place) && tensors_.find(prefix_ + row.name()) == nullptr;
}

DType DcpSource::dtype_of(const Param& row, const std::string& state) const {
  if (is_lacking(row)) return dtype_;
  const DistTensor& tensor = stored(row, state);
  if (!is_float(*tensor.dtype))
    fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.dtype_name,
         ", expected a floating-point type");
  return *tensor.dtype;
}

void DcpSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (is_lacking(row)) {
    std::memset(out.data(), 0, out.bytes());
    return;
  }
  const DistTensor& tensor = stored(row, state);
  const auto columns = [](const Shape& shape) { return Shape(shape.extents().subspan(1)); };
  const bool other_padding = row.is_vocabulary() && tensor.shape.rank() == row.shape.rank() &&
                             columns(tensor.shape) == columns(row.shape) &&
                             tensor.shape[0] >= config_->vocab_size;
  if (!(tensor.shape == row.shape) && !other_padding)
    fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.shape, ", expected ",
         row.shape);
  const std::int64_t rows = std::min(tensor.shape[0], row.shape[0]);
  const Tensor padding = out.rows(rows, row.shape[0]);
  std::memset(padding.data(), 0, padding.bytes());
  tensors_.read_original(tensor.key, origin_of(tensor.shape.rank()), out.rows(0, rows));
}

std::optional<MappedTensor> DcpSource::view(const Param& row, const std::string& state) const {
  if (is_lacking(row)) return {};
  const DistTensor& tensor = stored(row, state);
  if (!(tensor.shape == row.shape)) return {};
  return tensors_.view(tensor.key, origin_of(row.shape.rank()), row.shape);
}

// A tensor of a state_dict() is one here, and anything else an object.
std::string DcpSource::extra_state(const Param& weight) const {
  const std::string key = concat(prefix_, SpecNames().module(weight.place), "._extra_state");
  if (const DistTensor* const tensor = tensors_.find(key)) {
    if (tensor->dtype != DType::u8)
      fail(Exit::bad_data, path_, ": tensor ", key, " is ", tensor->dtype_name, ", expected bytes");
    std::string state(static_cast<std::size_t>(tensor->shape.numel()), '\0');
    tensors_.read_original(key, origin_of(tensor->shape.rank()),
                           {state.data(), DType::u8, tensor->shape});
    return state;
  }
  if (!tensors_.objects().contains(key)) return {};
  const TorchReader object = tensors_.open_object(key);
  return te_state_in(object.value(), object, concat(path_, ": ", key));
}

void DcpSource::check_all_used(const ParamTable& table) const {
  std::set<std::string> used;
  for (const Param& row : table.rows())
    for (const bool local_spec : {false, true})
      for (const std::string& name : state_dict_names(row.place, {local_spec}))
        used.insert(prefix_ + name);
  const auto is_other_state = [](const std::string& key) {
    return key.starts_with("optimizer.") || key.starts_with("rng_state.") ||
           key.ends_with("_extra_state");
  };
  for (const auto& [key, tensor] : tensors_.tensors())
    if (!used.contains(key) && !is_other_state(key))
      fail(Exit::bad_data, path_, ": tensor ", key,
           " has no place in the model that its settings describe");
}

}  // namespace mt
