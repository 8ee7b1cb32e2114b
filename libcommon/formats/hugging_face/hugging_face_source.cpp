#include "formats/hugging_face/hugging_face_source.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/lfs_pointer.h"
#include "base/near_path.h"
#include "ckpt/tensor_numbers.h"
#include "ckpt/torch_file.h"
#include "formats/hugging_face/image_processor.h"
#include "formats/hugging_face/quantization.h"
#include "formats/names/gguf.h"
#include "model/checkpoint_tokenizer.h"
#include "model/model.h"
#include "model/model_table.h"
#include "text/bpe/rank_file.h"
#include "text/file_names.h"
#include "text/hf/hf_from_files.h"
#include "text/hf/hf_tokenizer.h"
#include "text/same_ids.h"

namespace mt {

namespace fs = std::filesystem;

// Whether vocab.json and merges.txt of a folder are GPT-2's own, with nothing said beside them that
// Megatron's type would not do.
static bool is_gpt2(const std::string& folder, const TokenizerOptions& as_gpt2) {
  try {
    const HfTokenizer found(folder);
    return found.class_name() == "GPT2Tokenizer" && same_ids(found, *make_tokenizer(as_gpt2));
  } catch (const Error&) {  // which whoever reads it will be told
    return false;
  }
}

// The tokenizer of a folder of Hugging Face's; without a type if there is none.
static TokenizerOptions tokenizer_in(const std::string& folder) {
  const std::vector<std::string> files = hf_vocabulary_files(folder);
  if (files.empty()) return {};
  const std::string first = concat(folder, "/", files[0]);
  if (files.size() == 2) {
    const TokenizerOptions gpt2{.type = "GPT2BPETokenizer",
                                .vocab_file = first,
                                .merge_file = concat(folder, "/", files[1])};
    if (is_gpt2(folder, gpt2)) return gpt2;
  }
  return {.type = "HuggingFaceTokenizer", .model = first};
}

// What a tokenizer's file is by its content, and which --tokenizer-type reads such a one.
static const char* kind_of(std::string_view content) {
  if (content.starts_with('{')) return "is JSON, which HuggingFaceTokenizer and TikTokenizer read";
  if (content.starts_with('\n'))
    return "is a model of SentencePiece's, which Llama2Tokenizer, SentencePieceTokenizer and "
           "GPTSentencePieceTokenizer read";
  if (is_rank_file(content))
    return "is a list of tiktoken's ranks, which TikTokenizer and HuggingFaceTokenizer read";
  return "is neither JSON, nor a model of SentencePiece's, nor a list of ranks";
}

FolderTokenizer read_tokenizer(const TokenizerOptions& tokenizer) {
  if (tokenizer.type.empty()) return {};
  try {
    const std::unique_ptr<Tokenizer> made = make_tokenizer(tokenizer);
    return {.manifest = tokenizer_manifest(tokenizer, made->identity()), .note = hf_note_of(*made)};
  } catch (const Error& error) {
    const std::string& file = tokenizer.model.empty() ? tokenizer.vocab_file : tokenizer.model;
    const std::string content = read_regular_file(file);
    if (is_lfs_pointer(content)) return {.problem = concat(file, ": ", kIsLfsPointer)};
    return {.problem = concat(error.what(), "; ", file, " ", kind_of(content))};
  }
}

FolderTokenizer read_tokenizer_in(const std::string& folder) {
  const TokenizerOptions found = tokenizer_in(folder);
  const std::string ranks = concat(folder, "/", kQwenRanks);
  if (!found.type.empty() || !fs::exists(ranks)) return read_tokenizer(found);
  return {.problem = concat(ranks, is_lfs_pointer(read_regular_file(ranks))
                                       ? concat(": ", kIsLfsPointer)
                                       : ": is read by code of its folder's alone")};
}

void ModelSource::take_tokenizer(FolderTokenizer found) {
  manifest_extra_ = std::move(found.manifest);
  if (!found.note.empty()) notes_.push_back(std::move(found.note));
  tokenizer_problem_ = std::move(found.problem);
  if (!tokenizer_problem_.empty())
    notes_.push_back(
        concat("a tokenizer that cannot be read travels as it is (", tokenizer_problem_, ")"));
}

HuggingFaceSource::HuggingFaceSource(const std::string& folder, std::int64_t further) {
  path_ = folder;
  format_ = kHuggingFaceFormat;
  const std::string path = folder + "/config.json";
  const HuggingFaceConfig stored = parse_hugging_face_config(read_regular_file(path), path);
  *config_ = stored.model;
  if (stored.dtype) dtype_ = *stored.dtype;
  dtype_is_tensors_ = !stored.dtype;
  output_if_stored_ = stored.output_if_stored;
  of_texts_ = stored.of_texts;
  fused_experts_ = stored.fused_experts;
  lacking_ = stored.lacking;
  notes_ = stored.notes;
  take_further(stored, further);
  quantization_ = stored.quantization;
  if (const std::string modelopt = folder + "/hf_quant_config.json";
      quantization_.empty() && fs::exists(modelopt))
    quantization_ = read_regular_file(modelopt);
  if (reads_images(*config_)) read_image_processor(folder, *config_);
  try {
    config_->complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(folder);
  if (config_->family == ModelFamily::llava) take_video_processor(folder);
  take_tokenizer(read_tokenizer_in(folder));
}

// Written, it is a file of its own, which older releases of transformers read, too.
void HuggingFaceSource::take_video_processor(const std::string& folder) {
  const std::string content = video_processor_in(folder);
  if (content.empty()) return;
  std::erase_if(companions_, [](const Companion& file) { return file.name == kVideoProcessor; });
  companions_.push_back({.name = kVideoProcessor, .content = content});
}

// Layers that predict further tokens are the model's where they are asked for.
void HuggingFaceSource::take_further(const HuggingFaceConfig& stored, std::int64_t layers) {
  config_->mtp_num_layers = layers;
  may_predict_further_ = stored.may_predict_further;
  if (layers == 0 && stored.may_predict_further)
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, stored.further.value_or(1)); ++i)
      passed_over_.push_back(concat("model.layers.", stored.model.num_layers + i, "."));
  if (!stored.passed_over.empty()) passed_over_.push_back(stored.passed_over);
  if (layers > 0 && layers != stored.further.value_or(stored.may_predict_further ? layers : 0))
    fail(Exit::bad_config, path_, "/config.json: has ", stored.further.value_or(0),
         " layers that predict further tokens, expected ", layers);
}

// What ViTModel makes of its first token, which a head of ours does not begin with.
constexpr const char* kImagePooler = "pooler.dense.";

void HuggingFaceSource::note_passed_over() {
  if (config_->family == ModelFamily::vit &&
      tensors_->find(concat(prefix_, kImagePooler, "weight")) != nullptr)
    notes_.push_back(concat(path_, ": passed over: ", prefix_, kImagePooler,
                            "*, which is behind the hidden states"));
  for (const std::string& layer : passed_over_) {
    const std::string begin = prefix_ + layer;
    if (std::ranges::any_of(tensors_->tensors(),
                            [&](const auto& each) { return each.first.starts_with(begin); }))
      notes_.push_back(concat(path_, ": passed over: ", begin,
                              "*, a layer that predicts a further token",
                              may_predict_further_ ? "; see --mtp-num-layers" : ""));
  }
}

HuggingFaceSource::HuggingFaceSource(const std::string& folder, const ModelSourceOptions& options)
    : HuggingFaceSource(folder, options.further.value_or(0)) {
  if (options.vocab_size && *options.vocab_size != config_->vocab_size)
    fail(Exit::bad_config, folder, "/config.json: vocab_size is ", config_->vocab_size,
         ", --true-vocab-size ", *options.vocab_size);
  tensors_ = open_tensors(folder);
  if (!quantization_.empty()) unpack();
  const ParamTable rows = model_rows(*config_);
  const Param& words = rows.rows().front();
  find_prefix(words, options.prefix);
  if (dtype_is_tensors_) dtype_ = dtype_of(words, "");
  if (config_->is_radio()) take_normalization();
  if (config_->family == ModelFamily::bert && !config_->bert_lm_head && !config_->has_task_head())
    config_->bert_pooler = has_pooler();
  if (output_if_stored_ && !(of_texts_ && config_->untie_embeddings_and_output_weights))
    config_->untie_embeddings_and_output_weights = find_output() != nullptr;
  note_passed_over();
  if (config_->family == ModelFamily::bert) note_heads(model_rows(*config_));
  if (config_->may_have_linear_layers() && config_->apply_layernorm_1p)
    note_rounded(model_rows(*config_));
}

// Where config.json names no type, weights are of the one that those have which are not packed.
void HuggingFaceSource::unpack() {
  const Quantization quantization =
      read_quantization(quantization_, path_ + ": quantization_config");
  DType dtype = dtype_;
  if (dtype_is_tensors_)
    for (const auto& [key, tensor] : tensors_->tensors())
      if (key.ends_with(".weight") && tensor.dtype && is_float(*tensor.dtype))
        dtype = *tensor.dtype;
  tensors_ = unpacked(std::move(tensors_), quantization, dtype);
  notes_.push_back(concat(path_, ": weights that are stored as ", quantization.method,
                          " are read as the ", name_of(dtype), " numbers that they stand for"));
}

MockSource::MockSource(const std::string& folder, std::uint64_t seed, std::int64_t further)
    : HuggingFaceSource(folder, further), seed_(seed) {}

void MockSource::read(const Param& row, const std::string&, Tensor out) const {
  constexpr std::int64_t kBlock = 1 << 18;
  Stream stream(Device::cpu);
  const Buffer buffer(Device::cpu, kBlock * sizeof(float));
  const std::int64_t count = row.shape.numel();
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const Shape shape = {std::min(kBlock, count - begin)};
    const Tensor block = buffer.tensor(DType::f32, shape);
    const ElementRun run = {.local = 0, .global = begin, .count = shape[0]};
    initialize(row, {&run, 1}, block, seed_, stream);
    dense(DType::f32, shape, {static_cast<const std::byte*>(block.data()), block.bytes()})
        .copy_to({0}, out.reshape({count}).rows(begin, begin + shape[0]));
  }
}

// The tensor's name without the model's, as in "h.0.ln_1.weight".
static std::string bare_name(const std::string& name) {
  for (const char* prefix :
       {"transformer.", "model.", "vit.", "gpt_neox.", "bert.", "roberta.", "distilbert."})
    if (name.starts_with(prefix)) return name.substr(std::strlen(prefix));
  return name;
}

// Under what names a tensor may be there: generations of transformers call the parts of a LLaVA
// otherwise, and of what is one a writer may have kept either.
static std::vector<std::string> spellings(const std::string& name) {
  struct Spelling {
    std::string_view ours, other;
  };
  static constexpr Spelling kOthers[] = {
      {"language_model.model.", "model.language_model."},
      {"language_model.lm_head.", "lm_head."},
      {"vision_tower.", "vision_tower.vision_model."},
      {"vision_tower.", "model.vision_tower."},
      {"vision_tower.", "model.vision_tower.vision_model."},
      {"multi_modal_projector.", "model.multi_modal_projector."},
      {"cls.predictions.bias", "cls.predictions.decoder.bias"},
      {"lm_head.bias", "lm_head.decoder.bias"},
  };
  // What transformers' BERTs were called in TensorFlow, by which it reads them still.
  static constexpr Spelling kOfNorms[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                          {"LayerNorm.bias", "LayerNorm.beta"}};
  std::vector<std::string> all = {bare_name(name), name};
  for (const auto& [ours, other] : kOthers)
    if (name.starts_with(ours)) all.push_back(concat(other, name.substr(ours.size())));
  for (const auto& [ours, other] : kOfNorms)
    if (name.ends_with(ours))
      for (const std::string& whole : {bare_name(name), name})
        all.push_back(concat(whole.substr(0, whole.size() - ours.size()), other));
  return all;
}

// Tensors of a state that has the model's below a prefix, which begin the run again.
static bool is_of_run(const std::string& key) {
  for (const char* part : {"optim", "rng_state", "lr_scheduler"})
    if (key.starts_with(part) || key.find(concat('.', part)) != std::string::npos) return true;
  return false;
}

// Whether the words of a model may be there under this name again, or alone.
bool HuggingFaceSource::are_words(std::string_view name) const {
  const bool output = name == "lm_head.weight" || name == "language_model.lm_head.weight" ||
                      name == "cls.predictions.decoder.weight" ||
                      name == "lm_head.decoder.weight" || name == "vocab_projector.weight" ||
                      (format_ == kGgufFormat && name == kGgufOutput);
  return output ? !config_->untie_embeddings_and_output_weights
                : name == "encoder.embed_tokens.weight" || name == "decoder.embed_tokens.weight";
}

// The words where they are under another name alone: of tensors that are one, a writer may have
// kept any.
const DistTensor* HuggingFaceSource::words_alone() const {
  for (const char* name :
       {"lm_head.weight", "language_model.lm_head.weight", "cls.predictions.decoder.weight",
        "lm_head.decoder.weight", "vocab_projector.weight", "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight"})
    if (are_words(name))
      if (const DistTensor* const tensor = tensors_->find(prefix_ + name)) return tensor;
  return nullptr;
}

// The output layer's weight; of a part of texts it may lie beside the prefix.
const DistTensor* HuggingFaceSource::find_output() const {
  constexpr const char* kOutput = "lm_head.weight";
  const DistTensor* const own = tensors_->find(prefix_ + kOutput);
  return own == nullptr && of_texts_ ? tensors_->find(kOutput) : own;
}

// The table's first row, the words, is there under its own name, or below a prefix.
void HuggingFaceSource::find_prefix(const Param& words, const std::string& wanted) {
  const std::string name = hugging_face_names(*config_, words)[0].name, bare = bare_name(name);
  const bool whole = tensors_->find(bare) != nullptr || tensors_->find(name) != nullptr ||
                     (words_alone() != nullptr && !of_texts_);
  if (whole && wanted.empty()) return;
  std::set<std::string> prefixes;
  for (const std::string& end : {"." + name, "." + bare}) {
    if (!prefixes.empty()) break;
    for (const auto& [key, tensor] : tensors_->tensors())
      if (key.ends_with(end) && !is_of_run(key))
        prefixes.insert(key.substr(0, key.size() - end.size() + 1));
  }
  std::string found;
  for (const std::string& prefix : prefixes) found += (found.empty() ? "" : ", ") + prefix;
  if (!wanted.empty()) {
    prefix_ = wanted.ends_with('.') ? wanted : wanted + ".";
    if (!prefixes.contains(prefix_))
      fail(Exit::bad_data, path_, ": --prefix ", wanted, ": no model's names begin so",
           found.empty() ? "" : concat("; there are ", found));
  } else if (prefixes.size() > 1) {
    fail(Exit::bad_data, path_, ": holds several models, whose names begin with ", found,
         "; choose one by --prefix");
  } else if (!prefixes.empty()) {
    prefix_ = *prefixes.begin();
  }
  note_others();
}

// A BERT without heads may have one.
bool HuggingFaceSource::has_pooler() const {
  return std::ranges::any_of(tensors_->tensors(), [&](const auto& each) {
    return each.first.starts_with(prefix_) && each.first.ends_with("pooler.dense.weight");
  });
}

// What a BERT of the first kind was trained with beside its words: its class may have no place for
// it, and transformers passes it over then.
bool HuggingFaceSource::is_of_other_head(const std::string& name) const {
  if (config_->family != ModelFamily::bert || !config_->residual_of_norm) return false;
  return bare_name(name).starts_with("pooler.") || name.starts_with("cls.seq_relationship.");
}

void HuggingFaceSource::note_heads(const ParamTable& table) {
  std::set<std::string> heads;
  for (const auto& [key, tensor] : tensors_->tensors())
    if (key.starts_with(prefix_) && is_of_other_head(key.substr(prefix_.size()))) heads.insert(key);
  for (const Param& row : table.rows())
    for (const ForeignName& name : names_of(row))
      for (const std::string& spelling : spellings(name.name)) heads.erase(prefix_ + spelling);
  if (!heads.empty())
    notes_.push_back(concat(path_, ": passed over, of heads that its class has not: ",
                            names_text({heads.begin(), heads.end()})));
}

// Weights that Megatron keeps less 1 may have more bits than those.
void HuggingFaceSource::note_rounded(const ParamTable& table) {
  std::int64_t rounded = 0;
  for (const Param& row : table.rows()) {
    if (row.place.module != "self_attention.out_norm") continue;
    const ForeignName name = names_of(row).at(0);
    const DistTensor& tensor = stored(row, name);
    if (!is_float(*tensor.dtype)) continue;  // which reading refuses
    const auto bytes = static_cast<std::size_t>(row.shape.numel()) * size_of(*tensor.dtype);
    const Buffer of_theirs(Device::cpu, bytes), of_ours(Device::cpu, bytes),
        of_again(Device::cpu, bytes);
    const Tensor theirs = of_theirs.tensor(*tensor.dtype, row.shape),
                 ours = of_ours.tensor(*tensor.dtype, row.shape),
                 again = of_again.tensor(*tensor.dtype, row.shape);
    tensors_->read_original(tensor.key, origin_of(row.shape.rank()), theirs);
    apply_inverse(name.transform, ours, theirs);
    apply(name.transform, again, ours);
    const auto size = static_cast<std::ptrdiff_t>(size_of(*tensor.dtype));
    const auto* const a = static_cast<const std::byte*>(theirs.data());
    const auto* const b = static_cast<const std::byte*>(again.data());
    for (std::ptrdiff_t i = 0; i < row.shape.numel(); ++i)
      rounded += !std::equal(a + i * size, a + (i + 1) * size, b + i * size);
  }
  if (rounded > 0)
    notes_.push_back(concat(path_, ": ", rounded,
                            " weights of norms behind the gated delta rule are rounded, as "
                            "Megatron-LM keeps them less 1"));
}

// Says what lies beside the model in a state of which it is a part.
void HuggingFaceSource::note_others() {
  if (of_texts_) return;  // which config.json's note says
  std::vector<std::string> others;
  for (const auto& [key, tensor] : tensors_->tensors())
    if (!prefix_.empty() && !key.starts_with(prefix_) && !is_of_run(key)) others.push_back(key);
  if (!others.empty())
    notes_.push_back(
        concat(path_, ": passed over, beside the model below ", prefix_, ": ", names_text(others)));
}

const DistTensor& HuggingFaceSource::stored(const Param& row, const ForeignName& name) const {
  const DistTensor* found = nullptr;
  for (const std::string& spelling : spellings(name.name))
    if (found == nullptr) found = tensors_->find(prefix_ + spelling);
  if (found == nullptr && row.place.module == "word_embeddings") found = words_alone();
  if (found == nullptr && row.place.stack == "output_layer") found = find_output();
  const DistTensor& tensor = found != nullptr ? *found : tensors_->at(prefix_ + name.name);
  const Shape expected = hugging_face_shape(row, name, *config_);
  if (!(tensor.shape == expected))
    fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.shape, ", expected ",
         expected);
  return tensor;
}

std::vector<ForeignName> HuggingFaceSource::names_of(const Param& row) const {
  if (lacking_.has(row.place)) return {};
  if (fused_experts_ && row.place.expert) return {fused_name_of(row)};
  return hugging_face_names(*config_, row);
}

// transformers transposes experts unless they lie as it computes with them.
ForeignName HuggingFaceSource::fused_name_of(const Param& row) const {
  ForeignName plain = fused_expert_name(row, false);
  for (const std::string& spelling : spellings(plain.name))
    if (const DistTensor* const tensor = tensors_->find(prefix_ + spelling))
      if (tensor->shape == hugging_face_shape(row, plain, *config_)) return plain;
  return fused_expert_name(row, true);
}

DType HuggingFaceSource::dtype_of(const Param& row, const std::string&) const {
  std::optional<DType> dtype;
  for (const ForeignName& name : names_of(row)) {
    const DistTensor& tensor = stored(row, name);
    if (!is_float(*tensor.dtype) || (dtype && *dtype != *tensor.dtype))
      fail(Exit::bad_data, path_, ": tensor ", tensor.key, " is ", tensor.dtype_name, ", expected ",
           dtype ? name_of(*dtype) : "a floating-point type");
    dtype = tensor.dtype;
  }
  return dtype.value_or(dtype_);
}

void HuggingFaceSource::read(const Param& row, const std::string&, Tensor out) const {
  const std::vector<ForeignName> names = names_of(row);
  if (names.empty()) std::memset(out.data(), 0, out.bytes());
  for (const ForeignName& name : names) {
    const DistTensor& tensor = stored(row, name);
    if (name.parts > 0) {
      read_part(tensor, name, out);
      continue;
    }
    const Shape& expected = tensor.shape;
    const Shape origin = origin_of(expected.rank());
    if (row.is_vocabulary()) {
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

void HuggingFaceSource::read_part(const DistTensor& tensor, const ForeignName& name,
                                  Tensor out) const {
  const Shape shape = name.own_shape(tensor.shape), own(shape.extents().subspan(1));
  const Buffer buffer(Device::cpu, static_cast<std::size_t>(own.numel()) * size_of(out.dtype()));
  const Tensor theirs = buffer.tensor(out.dtype(), own);
  tensors_->read_original(tensor.key, name.own_place(tensor.shape), theirs.reshape(shape));
  apply_inverse(name.transform, out, theirs);
}

std::optional<MappedTensor> HuggingFaceSource::view(const Param& row, const std::string&) const {
  const std::vector<ForeignName> names = names_of(row);
  if (names.size() != 1 || !names[0].transform.empty()) return {};
  const DistTensor& tensor = stored(row, names[0]);
  if (!(tensor.shape == row.shape)) return {};
  return tensors_->view(tensor.key, origin_of(row.shape.rank()), row.shape);
}

// Tensors that a model of transformers computes, or passes over, and may have saved; of a GGUF file
// its frequencies.
static bool is_computed(const std::string& name, const std::string& format) {
  if (format == kGgufFormat)
    return name == kGgufFrequencies || name == kGgufFactors[0] || name == kGgufFactors[1];
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") || name.ends_with(".position_ids") ||
         name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

// The tensor that another of a model of transformers is, which a file may hold again.
const DistTensor* HuggingFaceSource::original_of(const std::string& name,
                                                 const ParamTable& table) const {
  for (const Param& row : table.rows())
    for (const std::string& copy : hugging_face_copies(*config_, row))
      if (bare_name(copy) == bare_name(name)) return &stored(row, names_of(row)[0]);
  const Param& words = table.rows().front();
  if (name == "cls.predictions.decoder.bias")
    return tensors_->find(prefix_ + "cls.predictions.bias");
  if (name == "lm_head.decoder.bias") return tensors_->find(prefix_ + "lm_head.bias");
  return are_words(name) ? &stored(words, names_of(words)[0]) : nullptr;
}

void HuggingFaceSource::check_same(const DistTensor& a, const DistTensor& b) const {
  constexpr std::int64_t kBlock = 1 << 18;
  bool same = a.shape == b.shape && a.dtype && a.dtype == b.dtype;
  if (same)
    for_each_block(a.shape, kBlock, [&](const Shape& offset, const Shape& shape) {
      const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(*a.dtype);
      const Buffer of_a(Device::cpu, bytes), of_b(Device::cpu, bytes);
      tensors_->read_original(a.key, offset, of_a.tensor(*a.dtype, shape));
      tensors_->read_original(b.key, offset, of_b.tensor(*a.dtype, shape));
      same = same && std::memcmp(of_a.data(), of_b.data(), bytes) == 0;
    });
  if (!same)
    fail(Exit::bad_data, path_, ": tensor ", a.key, " differs from ", b.key,
         ", though config.json says that they are one");
}

std::vector<float> HuggingFaceSource::all_of(const DistTensor& tensor) const {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.numel()));
  tensors_->read_original(tensor.key, origin_of(tensor.shape.rank()),
                          {values.data(), DType::f32, tensor.shape});
  return values;
}

// transformers' RadioModel normalizes images by numbers that lie among its weights, in their type,
// and go before those of config.json.
void HuggingFaceSource::take_normalization() {
  for (const auto& [name, list] :
       {std::pair("radio_model.input_conditioner.norm_mean", &config_->pixel_mean),
        {"radio_model.input_conditioner.norm_std", &config_->pixel_std}}) {
    const DistTensor* const tensor = tensors_->find(prefix_ + name);
    if (tensor == nullptr) continue;
    if (tensor->shape.numel() != 3)
      fail(Exit::bad_data, path_, ": tensor ", tensor->key, " is ", tensor->shape,
           ", expected three numbers");
    list->clear();
    for (const float value : all_of(*tensor)) {
      char text[32];
      char* const end = std::to_chars(std::begin(text), std::end(text), value).ptr;
      *list += concat(list->empty() ? "" : ",", std::string_view(text, end));
    }
    color_numbers(name, *list);
  }
}

// Tensors of a RADIO that are no rows: a scale of its branches is to be 1.
bool HuggingFaceSource::is_constant_of_radio(const std::string& name,
                                             const DistTensor& tensor) const {
  if (!config_->is_radio() || config_->family != ModelFamily::vit) return false;
  if (!name.ends_with(".lambda1"))
    return name.starts_with("radio_model.input_conditioner.") || name == "radio_model.summary_idxs";
  const std::vector<float> values = all_of(tensor);
  if (std::ranges::any_of(values, [](float x) { return x != 1; }))
    fail(Exit::bad_data, path_, ": tensor ", tensor.key,
         " is not 1, and no RADIO whose branches are multiplied is supported");
  return true;
}

void HuggingFaceSource::check_all_used(const ParamTable& table) const {
  std::set<std::string> used;
  for (const Param& row : table.rows())
    for (const ForeignName& name : names_of(row)) used.insert(stored(row, name).key);
  for (const auto& [key, tensor] : tensors_->tensors()) {
    if (used.contains(key)) continue;
    if (!key.starts_with(prefix_)) continue;  // see note_others()
    const std::string name = key.substr(prefix_.size());
    if (is_computed(name, format_) || is_constant_of_radio(name, tensor)) continue;
    if (is_of_other_head(name)) continue;
    if (of_texts_ && name.starts_with("visual.")) continue;  // of a Qwen
    if (config_->family == ModelFamily::vit && name.starts_with(kImagePooler)) continue;
    if (std::ranges::any_of(passed_over_, [&](const std::string& layer) {
          return bare_name(name).starts_with(bare_name(layer));
        }))
      continue;
    const DistTensor* const original = original_of(name, table);
    if (original == nullptr)
      fail(Exit::bad_data, path_, ": tensor ", key,
           " has no place in the model that its settings describe");
    check_same(tensor, *original);
  }
}

}  // namespace mt
