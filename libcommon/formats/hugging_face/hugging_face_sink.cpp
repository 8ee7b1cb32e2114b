// A folder as Hugging Face's from_pretrained() takes it: config.json, safetensors, and the files
// that travelled with the model.
#include <algorithm>

#include "base/json.h"
#include "ckpt/folder_save.h"
#include "ckpt/safetensors.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/hugging_face/image_processor.h"
#include "formats/hugging_face/tokenizer_files.h"
#include "formats/model_sink.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kModelopt = "hf_quant_config.json";

std::vector<SafetensorsWriter::Entry> entries_of(const ModelTarget& target, const ParamTable& table,
                                                 const RowTypes& types) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Param& row : table.rows()) {
    const std::vector<ForeignName> names = hugging_face_names(target.config, row);
    for (const ForeignName& name : names) {
      const Shape shape = hugging_face_shape(row, name, target.config);
      if (is_quantized(target.weights, row))
        std::ranges::move(quantized_entries(target.weights, name.name, types(row, ""), shape),
                          std::back_inserter(entries));
      else if (name.part == 0)
        entries.push_back({name.name, types(row, ""), shape});
    }
    for (const std::string& copy : hugging_face_copies(target.config, row))
      entries.push_back(
          {copy, types(row, ""), hugging_face_shape(row, names.front(), target.config)});
  }
  return entries;
}

std::string original_config(const ModelSource& source) {
  for (const Companion& file : source.companions())
    if (file.name == kConfig) return file.read();
  return {};
}

// With infinite numbers as the generation of transformers spells them that wrote `original`.
std::string as_original(const std::string& config, const std::string& original) {
  const bool python = without_python_numbers(original) != original;
  return python ? with_python_numbers(config) : config;
}

bool is_zero(ConstTensor tensor) {
  const auto* const bytes = static_cast<const std::byte*>(tensor.data());
  return std::all_of(bytes, bytes + tensor.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

std::string hugging_face_config(const ModelTarget& target, const Tokenizer* tokenizer) {
  const std::string original = original_config(target.source);
  const std::string quantization = quantization_config(target.weights);
  if (tokenizer == nullptr)
    return hugging_face_config(target.config, target.dtype, original, nullptr, quantization);
  const SpecialTokens special = special_tokens(*tokenizer);
  return hugging_face_config(target.config, target.dtype, original, &special, quantization);
}

class HuggingFaceSink : public ModelSink {
 public:
  HuggingFaceSink(const ModelTarget& target, const ParamTable& table, const RowTypes& types)
      : target_(target),
        tokenizer_(target.config.family == ModelFamily::vit ? nullptr
                                                            : readable_tokenizer(target.source)),
        config_(as_original(hugging_face_config(target, tokenizer_.get()),
                            original_config(target.source))),
        save_(target.path, hugging_face_files(target.source), target.replaces),
        writer_(save_.folder(), entries_of(target, table, types), target.shard_bytes) {
    for (const Param& row : table.rows())
      if (is_quantized(target.weights, row))
        for (const ForeignName& name : hugging_face_names(target.config, row))
          if (const Shape shape = hugging_face_shape(row, name, target.config);
              warnings_.empty() && has_cut_blocks(target.weights.format, shape))
            warnings_.push_back(concat("--quantize fp8_block: ", name.name, " is ", shape,
                                       ", which blocks of 128 x 128 do not divide; vLLM does not "
                                       "read such a folder"));
  }

  void write(std::size_t, const Param& row, const std::string&, ConstTensor value) override {
    const std::vector<ForeignName> names = hugging_face_names(target_.config, row);
    if (names.empty() && !is_zero(value))
      fail(Exit::bad_config, row.name(), ": is not zero, and has no place in Hugging Face's model");
    const bool quantized = is_quantized(target_.weights, row);
    const SharedRange range = quantized ? range_of(target_, row, value) : SharedRange{};
    for (const ForeignName& name : names) {
      const ForeignValue theirs(row, name, value, target_.config.vocab_size);
      if (quantized)
        write_quantized(name.name, theirs.tensor(), range);
      else if (name.parts > 0)
        writer_.write_part(name.name, name.part, theirs.tensor());
      else
        writer_.write(name.name, theirs.tensor());
      for (const std::string& copy : hugging_face_copies(target_.config, row))
        writer_.write(copy, theirs.tensor());
    }
  }

  std::vector<std::string> warnings() const override { return warnings_; }

  std::string finish() override {
    writer_.close();
    write_file_atomically(save_.folder() + "/" + kConfig, config_, false);
    for (const Companion& file : target_.source.companions())
      if (file.name != kConfig) write_companion(file, save_.folder());
    if (target_.weights.modelopt)
      write_companion({.name = kModelopt, .content = modelopt_config(target_.weights) + "\n"},
                      save_.folder());
    if (tokenizer_) write_missing();
    if (reads_images(target_.config))
      write_companion({.name = kImageProcessor, .content = image_processor(target_.config)},
                      save_.folder());
    if (target_.config.family == ModelFamily::llava)
      write_companion(
          {.name = kProcessor, .content = joint_processor(target_.config, image_token())},
          save_.folder());
    return save_.folder();
  }

  void publish() override { save_.publish(); }

 private:
  // As the tokenizer has it, or as all of transformers' LLaVAs do.
  std::string image_token() const {
    const auto id = static_cast<std::int32_t>(target_.config.image_token_index);
    if (!tokenizer_ || id >= tokenizer_->vocab_size()) return "<image>";
    return tokenizer_->decode_text({&id, 1});
  }

  void write_quantized(const std::string& name, ConstTensor matrix, const SharedRange& range) {
    check_room(target_.weights, name, matrix, range);
    const QuantizedMatrix made(target_.weights, name, matrix, range);
    for (const auto& [key, tensor] : made.tensors()) writer_.write(key, made.value(key));
  }

  // What transformers would not know without, of a model that none of its own folders said it of.
  void write_missing() const {
    const std::vector<Companion>& companions = target_.source.companions();
    for (const Companion& file :
         missing_tokenizer_files(companions, *tokenizer_, target_.config.max_position_embeddings))
      write_companion(file, save_.folder());
    if (find_companion(companions, kGeneration) != nullptr ||
        find_companion(companions, kConfig) != nullptr)
      return;
    JsonWriter json;
    json.begin_object();
    const SpecialTokens special = special_tokens(*tokenizer_);
    for (const auto& [name, id] : {std::pair("bos_token_id", special.bos),
                                   {"eos_token_id", special.eos},
                                   {"pad_token_id", special.pad}})
      if (id >= 0) json.member(name, id);
    write_companion({.name = kGeneration, .content = json.end_object().text() + "\n"},
                    save_.folder());
  }

  ModelTarget target_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string config_;
  std::vector<std::string> warnings_;
  FolderSave save_;
  SafetensorsWriter writer_;
};

}  // namespace

FolderFiles hugging_face_files(const ModelSource& source) {
  const bool tokenizer = brings_tokenizer(source);
  const bool of_images = reads_images(source.config());
  const OwnFile own = [tokenizer, of_images](const std::string& name) {
    return name == kConfig ||
           (of_images &&
            (name == kImageProcessor || name == kProcessor || name == kVideoProcessor)) ||
           name == "generation_config.json" || name == kModelopt || name == "model.safetensors" ||
           name == kIndex || has_form(name, "model-#####-of-#####.safetensors") ||
           (tokenizer && is_tokenizer_file(name));
  };
  return {.own = [own](const std::string&) { return own; }, .keys = {kIndex, kConfig}};
}

SharedRange range_of(const ModelTarget& target, const Param& row, ConstTensor value) {
  const WeightScheme& scheme = target.weights;
  if (scheme.format != WeightFormat::nvfp4 && !scheme.static_inputs) return {};
  return {.weights = largest_of(value),
          .inputs = target.weights.static_inputs ? target.input_ranges->at(row.name()) : 0};
}

std::string hugging_face_config(const ModelTarget& target) {
  return hugging_face_config(target.config, target.dtype, original_config(target.source));
}

ForeignValue::ForeignValue(const Param& row, const ForeignName& name, ConstTensor value,
                           std::int64_t vocab_size) {
  if (row.is_vocabulary()) {
    tensor_ = value.rows(0, vocab_size);
  } else if (const auto rows = consecutive_rows(name.transform, row.shape)) {
    tensor_ = value.rows(rows->first, rows->second);
  } else {
    const Shape shape = transformed_shape(name.transform, row.shape);
    copy_ = {Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(value.dtype())};
    const Tensor theirs = copy_.tensor(value.dtype(), shape);
    apply(name.transform, theirs, value);
    tensor_ = theirs;
  }
}

void round_to_format(const ModelTarget& target, const Param& row, Tensor value) {
  if (!is_quantized(target.weights, row)) return;
  const SharedRange range = range_of(target, row, value);
  for (const ForeignName& name : hugging_face_names(target.config, row)) {
    const ForeignValue theirs(row, name, value, target.config.vocab_size);
    const Buffer made(Device::cpu, theirs.tensor().bytes());
    const Tensor rounded = made.tensor(value.dtype(), theirs.tensor().shape());
    round_to_format(target.weights, name.name, rounded, theirs.tensor(), range);
    apply_inverse(name.transform, value, rounded);
  }
}

std::unique_ptr<ModelSink> make_hugging_face_sink(const ModelTarget& target,
                                                  const ParamTable& table, const RowTypes& types) {
  return std::make_unique<HuggingFaceSink>(target, table, types);
}

}  // namespace mt
