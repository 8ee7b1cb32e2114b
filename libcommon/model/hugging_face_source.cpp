#include "model/hugging_face_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "model/checkpoint_tokenizer.h"
#include "model/gpt_checkpoint.h"
#include "model/hugging_face_config.h"
#include "model/model.h"

namespace mt {

namespace fs = std::filesystem;

std::vector<ForeignName> hugging_face_names(const Param& row) {
  std::vector<ForeignName> names;
  bool known = false;
  for (const ForeignName& name : row.foreign) {
    if (name.format != kHuggingFaceFormat) continue;
    known = true;
    if (name.name != kZerosThere) names.push_back(name);
  }
  if (!known) fail(Exit::bad_data, row.name, ": has no place in Hugging Face's formats");
  return names;
}

Shape hugging_face_shape(const Param& row, const ForeignName& name, const ModelConfig& config) {
  if (is_vocabulary(row))
    return Shape(row.shape.extents().subspan(1)).with_front(config.vocab_size);
  return transformed_shape(name.transform, row.shape);
}

// The tokenizer of a folder of Hugging Face's; without a type if there is none.
static TokenizerOptions tokenizer_in(const std::string& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder + "/" + name); };
  if (has("tokenizer.json"))
    return {.type = "HuggingFaceTokenizer", .model = folder + "/tokenizer.json"};
  if (has("vocab.json") && has("merges.txt"))
    return {.type = "GPT2BPETokenizer",
            .vocab_file = folder + "/vocab.json",
            .merge_file = folder + "/merges.txt"};
  if (has("tokenizer.model"))
    return {.type = "Llama2Tokenizer", .model = folder + "/tokenizer.model"};
  return {};
}

HuggingFaceSource::HuggingFaceSource(const std::string& folder) {
  path_ = folder;
  format_ = kHuggingFaceFormat;
  const std::string path = folder + "/config.json";
  const HuggingFaceConfig stored = parse_hugging_face_config(read_file(path), path);
  config_ = stored.model;
  dtype_ = stored.dtype;
  output_if_stored_ = stored.output_if_stored;
  try {
    config_.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(folder);
  const TokenizerOptions tokenizer = tokenizer_in(folder);
  if (!tokenizer.type.empty())
    manifest_extra_ = tokenizer_manifest(tokenizer, make_tokenizer(tokenizer)->identity());
}

HuggingFaceSource::HuggingFaceSource(const std::string& folder, const ModelSourceOptions& options)
    : HuggingFaceSource(folder) {
  if (options.vocab_size && *options.vocab_size != config_.vocab_size)
    fail(Exit::bad_config, folder, "/config.json: vocab_size is ", config_.vocab_size,
         ", --true-vocab-size ", *options.vocab_size);
  tensors_ = open_tensors(folder);
  if (output_if_stored_)
    config_.untie_embeddings_and_output_weights = tensors_->find("lm_head.weight") != nullptr;
}

MockSource::MockSource(const std::string& folder, std::uint64_t seed)
    : HuggingFaceSource(folder), seed_(seed) {}

void MockSource::read(const Param& row, const std::string&, Tensor out) const {
  Stream stream(Device::cpu);
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  const Tensor value = buffer.tensor(DType::f32, row.shape);
  initialize(row, value, seed_, stream);
  dense(DType::f32, row.shape, {static_cast<const std::byte*>(value.data()), value.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
}

// The tensor's name without the model's, as in "h.0.ln_1.weight".
static std::string bare_name(const std::string& name) {
  for (const char* prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(std::strlen(prefix));
  return name;
}

const DistTensor& HuggingFaceSource::stored(const ForeignName& name) const {
  const DistTensor* const bare = tensors_->find(bare_name(name.name));
  return bare != nullptr ? tensors_->at(bare->key) : tensors_->at(name.name);
}

DType HuggingFaceSource::dtype_of(const Param& row, const std::string&) const {
  std::optional<DType> dtype;
  for (const ForeignName& name : hugging_face_names(row)) {
    const DistTensor& tensor = stored(name);
    if (!is_float(*tensor.dtype) || (dtype && *dtype != *tensor.dtype))
      fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.dtype_name, ", expected ",
           dtype ? name_of(*dtype) : "a floating-point type");
    dtype = tensor.dtype;
  }
  return dtype.value_or(dtype_);
}

void HuggingFaceSource::read(const Param& row, const std::string&, Tensor out) const {
  const std::vector<ForeignName> names = hugging_face_names(row);
  if (names.empty()) std::memset(out.data(), 0, out.bytes());
  for (const ForeignName& name : names) {
    const DistTensor& tensor = stored(name);
    const Shape expected = hugging_face_shape(row, name, config_);
    if (!(tensor.shape == expected))
      fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.shape, ", expected ",
           expected);
    const Shape origin = origin_of(expected.rank());
    if (is_vocabulary(row)) {
      const std::int64_t rows = std::min(expected[0], out.shape()[0]);
      tensors_->read_original(tensor.key, origin, out.rows(0, rows));
      const Tensor padding = out.rows(rows, out.shape()[0]);
      std::memset(padding.data(), 0, padding.bytes());
    } else if (const auto rows = consecutive_rows(name.transform, row.shape)) {
      tensors_->read_original(tensor.key, origin, out.rows(rows->first, rows->second));
    } else {
      const Buffer buffer(Device::cpu,
                          static_cast<std::size_t>(expected.numel()) * size_of(out.dtype()));
      const Tensor theirs = buffer.tensor(out.dtype(), expected);
      tensors_->read_original(tensor.key, origin, theirs);
      apply_inverse(name.transform, out, theirs);
    }
  }
}

std::optional<MappedTensor> HuggingFaceSource::view(const Param& row, const std::string&) const {
  const std::vector<ForeignName> names = hugging_face_names(row);
  if (names.size() != 1 || !names[0].transform.empty()) return {};
  const DistTensor& tensor = stored(names[0]);
  if (!(tensor.shape == row.shape)) return {};
  return tensors_->view(tensor.key, origin_of(row.shape.rank()), row.shape);
}

// Tensors that a model of transformers computes, or passes over, and may have saved.
static bool is_computed(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") || name.ends_with(".position_ids") ||
         name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

// What is the embedding, a file may hold again.
void HuggingFaceSource::check_tied(const std::string& copy, const Param& words) const {
  const DistTensor &a = tensors_->at(copy), &b = stored(hugging_face_names(words)[0]);
  bool same = a.shape == b.shape && a.dtype == b.dtype && a.shape.rank() == 2;
  const Buffer buffer(Device::cpu, 2 * static_cast<std::size_t>(a.shape[1]) * size_of(*a.dtype));
  for (std::int64_t row = 0; same && row < a.shape[0]; ++row) {
    const Tensor both = buffer.tensor(*a.dtype, {2, a.shape[1]});
    tensors_->read_original(a.key, {row, 0}, both.rows(0, 1));
    tensors_->read_original(b.key, {row, 0}, both.rows(1, 2));
    same = std::memcmp(both.data(), both.rows(1, 2).data(), both.bytes() / 2) == 0;
  }
  if (!same)
    fail(Exit::bad_data, path_, ": tensor ", copy, " differs from ", b.key,
         ", though config.json says that they are one");
}

void HuggingFaceSource::check_all_used(const ParamTable& table) const {
  std::set<std::string> used;
  for (const Param& row : table.rows())
    for (const ForeignName& name : hugging_face_names(row)) used.insert(stored(name).key);
  for (const auto& [name, tensor] : tensors_->tensors()) {
    if (used.contains(name) || is_computed(name)) continue;
    const bool output = name == "lm_head.weight" || name == "cls.predictions.decoder.weight",
               words = name.ends_with("coder.embed_tokens.weight");  // of T5's two stacks
    if (!words && (!output || config_.untie_embeddings_and_output_weights))
      fail(Exit::bad_data, path_, ": tensor ", name,
           " has no place in the model that config.json describes");
    check_tied(name, table.rows().front());
  }
}

}  // namespace mt
