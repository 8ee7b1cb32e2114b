#include "model/dcp_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "ckpt/checkpoint_manifest.h"
#include "model/core_source.h"
#include "model/gpt_checkpoint.h"
#include "model/hugging_face_config.h"
#include "model/hugging_face_source.h"
#include "model/rank_layout.h"

namespace mt {

namespace fs = std::filesystem;

constexpr const char* kArgs = "args";
constexpr std::string_view kWords = "embedding.word_embeddings.weight";

std::vector<std::string> state_dict_names(const Param& row, bool local_spec) {
  std::vector<std::string> names = {local_spec ? local_spec_name(row.name) : row.name};
  const std::string head = "lm_head.output_layer.";  // which T5Model has twice
  if (names[0].starts_with(head)) names.push_back(names[0].substr(std::strlen("lm_head.")));
  return names;
}

// What stands before the names of the weights; nothing if there are none of Megatron-Core's.
static std::optional<std::string> prefix_in(const TensorSource& tensors) {
  std::optional<std::string> prefix;
  for (const auto& [key, tensor] : tensors.tensors()) {  // an optimizer's are longer
    const std::string before = key.substr(0, key.size() - std::min(key.size(), kWords.size()));
    const bool words = key.ends_with(kWords) && (before.empty() || before.ends_with('.'));
    if (words && (!prefix || before.size() < prefix->size())) prefix = before;
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
  if (!prefix) fail(Exit::bad_data, folder, ": has no tensor ", kWords, " of a Megatron model");
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
  const PyValue args = tensors_.read_object(kArgs);
  const auto has_tensor = [&](const std::string& name) {
    return tensors_.find(prefix_ + name) != nullptr;
  };
  config_ = model_config_of(with_vocabulary(args, options.vocab_size, where), has_tensor, where);
  dtype_ = dtype_of_args(args, where);
  common_ = PyValue::dict({{kArgs, args}});
  if (tensors_.objects().contains("iteration"))
    common_.set_item("iteration", tensors_.read_object("iteration"));
  if (fs::is_directory(path_ + "/tokenizer")) companions_ = companions_in(path_ + "/tokenizer");
}

void DcpSource::read_config_json() {
  const std::string path = path_ + "/config.json";
  const HuggingFaceConfig stored = parse_hugging_face_config(read_file(path), path);
  config_ = stored.model;
  dtype_ = stored.dtype;
  if (stored.output_if_stored)
    config_.untie_embeddings_and_output_weights =
        tensors_.find(prefix_ + "output_layer.weight") != nullptr;
  try {
    config_.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(path_);
  manifest_extra_ = manifest_of_tokenizer_in(path_);
}

const DistTensor& DcpSource::stored(const Param& row) const {
  const DistTensor* const local = tensors_.find(prefix_ + local_spec_name(row.name));
  return tensors_.at(local != nullptr ? local->key : prefix_ + row.name);
}

DType DcpSource::dtype_of(const Param& row, const std::string&) const {
  const DistTensor& tensor = stored(row);
  if (!is_float(*tensor.dtype))
    fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.dtype_name,
         ", expected a floating-point type");
  return *tensor.dtype;
}

void DcpSource::read(const Param& row, const std::string&, Tensor out) const {
  const DistTensor& tensor = stored(row);
  const auto columns = [](const Shape& shape) { return Shape(shape.extents().subspan(1)); };
  const bool other_padding = is_vocabulary(row) && tensor.shape.rank() == row.shape.rank() &&
                             columns(tensor.shape) == columns(row.shape) &&
                             tensor.shape[0] >= config_.vocab_size;
  if (!(tensor.shape == row.shape) && !other_padding)
    fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.shape, ", expected ",
         row.shape);
  const std::int64_t rows = std::min(tensor.shape[0], row.shape[0]);
  const Tensor padding = out.rows(rows, row.shape[0]);
  std::memset(padding.data(), 0, padding.bytes());
  tensors_.read_original(tensor.key, origin_of(tensor.shape.rank()), out.rows(0, rows));
}

std::optional<MappedTensor> DcpSource::view(const Param& row, const std::string&) const {
  const DistTensor& tensor = stored(row);
  if (!(tensor.shape == row.shape)) return {};
  return tensors_.view(tensor.key, origin_of(row.shape.rank()), row.shape);
}

void DcpSource::check_all_used(const ParamTable& table) const {
  std::set<std::string> used;
  for (const Param& row : table.rows())
    for (const bool local_spec : {false, true})
      for (const std::string& name : state_dict_names(row, local_spec)) used.insert(prefix_ + name);
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
