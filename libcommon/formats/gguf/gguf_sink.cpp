// A folder with a model.gguf for llama.cpp, of what formats/names/gguf.h names.  Vectors, positions
// and routers are float32 in files of any type; rows that blocks of 32 do not divide are float16.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/json_object.h"
#include "ckpt/folder_save.h"
#include "ckpt/gguf.h"
#include "ckpt/gguf_quantize.h"
#include "formats/calibration.h"
#include "formats/gguf/gguf_bert.h"
#include "formats/gguf/gguf_experts.h"
#include "formats/gguf/gguf_families.h"
#include "formats/gguf/gguf_latent.h"
#include "formats/gguf/gguf_mamba.h"
#include "formats/gguf/gguf_mixture.h"
#include "formats/gguf/gguf_scaling.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/gguf/importance_matrix.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/model_sink.h"
#include "formats/names/gguf.h"
#include "model/config/model_config.h"
#include "nn/mlp.h"

namespace mt {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kModelGguf = "model.gguf";

// --- Settings -----------------------------------------------------------------------------------

GgufType type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return GgufType::f32;
    case DType::f16:
      return GgufType::f16;
    case DType::bf16:
      return GgufType::bf16;
    default:
      fail(Exit::bad_config, name_of(dtype), ": is no type of weights in GGUF files; see --dtype");
  }
}

// general.file_type: what most matrices are.
std::uint32_t file_type(GgufType type) {
  return type == GgufType::f32 ? 0 : type == GgufType::f16 ? 1 : 32;
}

// What llama.cpp has for a model that config.json calls so.
const GgufArchitecture& architecture_of(const ModelConfig& c, const std::string& config) {
  simdjson::dom::parser parser;
  const JsonObject object(parser.parse(config).value(), kConfig);
  const std::string_view model_type = object.text("model_type");
  const GgufArchitecture* const found = gguf_architecture_of(model_type, c.num_experts > 0);
  if (found == nullptr)
    fail(Exit::bad_config, "--saver gguf: llama.cpp's models that are written are ",
         gguf_architectures(), ", and there is none for ", model_type);
  if (found->name == "gpt2" && c.activation() != Activation::gelu_tanh)
    fail(Exit::bad_config, "llama.cpp's GPT-2 has GeLU by tanh, not by erf");
  if (found->mamba || found->bert) {
    if (found->mamba) check_gguf_mamba(c, *found);
    if (found->bert) check_gguf_bert(c);
    return *found;
  }
  if (!c.multi_latent_attention) check_gguf_scaling(c, *found, config);
  if (c.multi_latent_attention)
    check_gguf_latent(c);
  else if (found->experts != GgufExperts::none)
    check_gguf_experts(c, *found);
  check_gguf_family(c, *found);
  return *found;
}

// Up to so many tokens no window of the model matters, where llama.cpp has none for the family.
std::int64_t context_length(const ModelConfig& c, const GgufArchitecture& architecture) {
  std::int64_t length = c.max_position_embeddings;
  const std::string_view name = architecture.name;
  if (name != "llama" && name != "qwen2" && name != "qwen3" && name != "starcoder2") return length;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    if (const std::int64_t window = c.window(layer); window >= 0)
      length = std::min(length, window + 1);
  return length;
}

void add_settings(GgufKeyValues& values, const ModelConfig& c, const GgufArchitecture& architecture,
                  const std::string& config) {
  if (architecture.mamba) return add_gguf_mamba(values, c, architecture);
  if (architecture.bert) return add_gguf_bert(values, c);
  const std::string name(architecture.name);
  GgufSettingsWriter to(values, name);
  to.size("block_count", c.num_layers);
  to.size("context_length", context_length(c, architecture));
  to.size("embedding_length", c.hidden_size);
  to.size("feed_forward_length", c.ffn());
  to.size("vocab_size", c.vocab_size);
  to.size("attention.head_count", c.num_attention_heads);
  to.size("attention.head_count_kv", c.multi_latent_attention ? 1 : c.kv_heads());  // or latents
  to.real(
      architecture.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      c.norm_epsilon);
  if (c.multi_latent_attention) return add_gguf_latent(to, c);
  if (name == "gpt2") return;
  to.size("attention.key_length", c.head_dim());
  to.size("attention.value_length", c.head_dim());
  to.size("rope.dimension_count", c.rotary_dim());
  to.real("rope.freq_base", c.rotary_base);
  if (architecture.experts != GgufExperts::none) add_gguf_experts(to, c, architecture);
  add_gguf_scaling(to, c, architecture, config);
  add_gguf_family(to, c, architecture);
}

// --- Files --------------------------------------------------------------------------------------

// Of the columns of a row's matrix in a tensor that it is, or is a part of.
std::span<const float> importance_of(const ModelTarget& target, const Param& row,
                                     const ForeignName& name, const Shape& shape) {
  if (target.importance == nullptr || !is_gguf_quantized(row)) return {};
  return target.importance->of(name.name, name.part, std::max<std::int64_t>(1, name.parts),
                               shape[-1]);
}

// What a file has of a row's value: of A_log -exp of it, and else itself.
class Decay {
 public:
  Decay(const Param& row, ConstTensor value) : tensor_(value) {
    if (!is_decay(row)) return;
    numbers_ = Buffer(Device::cpu, static_cast<std::size_t>(value.numel()) * sizeof(float));
    const Tensor decays = numbers_.tensor(DType::f32, value.shape());
    dense(value.dtype(), value.shape(),
          {static_cast<const std::byte*>(value.data()), value.bytes()})
        .copy_to(origin_of(value.shape().rank()), decays);
    for (std::int64_t i = 0; i < decays.numel(); ++i)
      decays.as<float>()[i] = decay_of(decays.as<float>()[i]);
    tensor_ = decays;
  }
  const ConstTensor& tensor() const { return tensor_; }

 private:
  Buffer numbers_;
  ConstTensor tensor_;
};

class GgufSink : public ModelSink {
 public:
  GgufSink(const ModelTarget& target, const ParamTable& table, const RowTypes& types)
      : target_(target),
        key_values_(settings()),
        save_(target.path, gguf_files(), target.replaces),
        writer_(save_.folder() + "/" + kModelGguf, key_values_, entries(table, types)) {}

  void write(std::size_t, const Param& row, const std::string&, ConstTensor value) override {
    for (const ForeignName& name : written_gguf_tensors(architecture_, target_.config, row)) {
      const Decay decay(row, value);
      const ForeignValue foreign(row, name, decay.tensor(), target_.config.vocab_size);
      const auto importance = importance_of(target_, row, name, foreign.tensor().shape());
      if (name.parts > 0)
        writer_.write_part(name.name, name.part, foreign.tensor(), importance);
      else
        writer_.write(name.name, foreign.tensor(), importance);
    }
  }

  std::string finish() override {
    const std::vector<float> factors = frequency_factors(target_.config);
    for (const std::string& name : names_of_factors(target_.config, architecture_))
      writer_.write(name, {factors.data(), DType::f32, {std::ssize(factors)}});
    writer_.close();
    return save_.folder();
  }

  void publish() override { save_.publish(); }

  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  GgufKeyValues settings() {
    const ModelConfig& c = target_.config;
    const std::string config = hugging_face_config(target_);
    const GgufArchitecture& architecture = architecture_of(c, config);
    if (target_.mixture && c.multi_latent_attention && c.qk_head_dim % kShortGgufBlock != 0)
      fail(Exit::bad_config, "--dtype: blocks of ", kShortGgufBlock,
           " numbers do not divide --qk-head-dim ", c.qk_head_dim);
    architecture_ = architecture.name;
    GgufKeyValues to;
    to.text("general.architecture", architecture_);
    to.text("general.type", "model");
    to.text("general.name", std::filesystem::path(target_.path).filename().string());
    to.integer("general.file_type",
               target_.mixture ? target_.mixture->file_type : file_type(type_of(target_.dtype)));
    to.integer("general.quantization_version", 2);
    add_settings(to, c, architecture, config);
    if (const std::string warning =
            architecture.bert ? gguf_bert_warning(c) : gguf_family_warning(c, architecture);
        !warning.empty())
      warnings_.push_back(concat(target_.path, ": ", warning));
    const auto tokenizer = readable_tokenizer(target_.source);
    const std::string problem =
        add_gguf_tokenizer(to, target_.source.companions(), tokenizer.get(), config, c.vocab_size);
    if (!problem.empty()) warnings_.push_back(concat(target_.path, ": ", problem));
    return to;
  }

  std::vector<GgufWriter::Entry> entries(const ParamTable& table, const RowTypes& types) const {
    std::vector<GgufWriter::Entry> entries;
    for (const Param& row : table.rows())
      for (const ForeignName& name : written_gguf_tensors(architecture_, target_.config, row)) {
        if (name.part > 0) continue;
        const Shape shape = hugging_face_shape(row, name, target_.config);
        const GgufType type =
            target_.mixture && is_gguf_quantized(row)
                ? gguf_type(*target_.mixture, target_.config, architecture_, name.name, shape[-1])
                : type_of(types(row, ""));
        entries.push_back({name.name, type, shape});
      }
    for (const std::string& name : names_of_factors(target_.config, architecture_))
      entries.push_back({name, GgufType::f32, {target_.config.rotary_dim() / 2}});
    return entries;
  }

  ModelTarget target_;
  std::vector<std::string> warnings_;
  std::string architecture_;
  GgufKeyValues key_values_;
  FolderSave save_;
  GgufWriter writer_;
};

std::string architecture_name(const ModelTarget& target) {
  return std::string(architecture_of(target.config, hugging_face_config(target)).name);
}

bool is_single(const Param& row) {
  return row.shape.rank() == 1 || row.place.module == "position_embeddings" ||
         row.place.module == "tokentype_embeddings" || row.place.module == "mlp.router" ||
         row.place.module == "mixer.conv1d" || row.place.param == "gate_weight";
}

}  // namespace

bool is_gguf_quantized(const Param& row) {
  return !is_single(row) && row.shape[-1] % kShortGgufBlock == 0;
}

DType gguf_dtype(const Param& row, DType stored, bool quantized) {
  if (is_single(row)) return DType::f32;
  if (!quantized) return stored;
  return is_gguf_quantized(row) ? DType::f32 : DType::f16;
}

ImportanceMatrix gguf_importance(const ModelTarget& target, const ParamTable& table,
                                 const Calibration& calibration) {
  ImportanceMatrix matrix;
  const std::string architecture = architecture_name(target);
  const auto moves_rows = [](const Rearrange& step) {
    return step.kind == Rearrange::Kind::rows || step.kind == Rearrange::Kind::sort ||
           step.kind == Rearrange::Kind::exchange;
  };
  for (const Param& row : table.rows()) {
    const LayerInputs* const inputs = calibration.find(row);
    if (inputs == nullptr || !is_gguf_quantized(row)) continue;
    for (const ForeignName& name : written_gguf_tensors(architecture, target.config, row)) {
      if (name.parts > 0 || !std::ranges::all_of(name.transform, moves_rows)) continue;
      std::vector<float> means;
      for (const double sum : inputs->squares)
        means.push_back(static_cast<float>(sum / static_cast<double>(inputs->tokens)));
      matrix.add(name.name, std::move(means));
    }
  }
  return matrix;
}

void check_gguf_importance(const ModelTarget& target, const ParamTable& table,
                           const std::string& path) {
  const std::string architecture = architecture_name(target);
  bool has_any = false;
  for (const Param& row : table.rows())
    for (const ForeignName& name : written_gguf_tensors(architecture, target.config, row)) {
      importance_of(target, row, name, hugging_face_shape(row, name, target.config));
      has_any = has_any || target.importance->has(name.name);
    }
  if (has_any) return;
  fail(Exit::bad_data, path, ": is of another model: none of ", target.importance->tensors(),
       " tensors is one of this");
}

std::vector<std::string> gguf_names(const ModelTarget& target, const Param& row) {
  std::vector<std::string> names;
  for (const ForeignName& name :
       written_gguf_tensors(architecture_name(target), target.config, row))
    names.push_back(name.name);
  return names;
}

// --- Reading back -------------------------------------------------------------------------------

namespace {

// A tensor of the file, as `dtype`.
struct Stored {
  Stored(const GgufReader& file, const ForeignName& name, DType dtype)
      : shape(name.own_shape(file.at(name.name).shape)),
        buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)),
        tensor(buffer.tensor(dtype, shape)) {
    file.read_original(name.name, name.own_place(file.at(name.name).shape), tensor);
    if (name.parts == 0) return;
    shape = Shape(shape.extents().subspan(1));
    tensor = tensor.reshape(shape);
  }
  Shape shape;
  Buffer buffer;
  Tensor tensor;
};

std::span<const float> floats(ConstTensor tensor) {
  return {static_cast<const float*>(tensor.data()), static_cast<std::size_t>(tensor.numel())};
}

// What is read of the blocks that these numbers become.
std::vector<float> in_blocks(const GgufBlocks& of, ConstTensor numbers,
                             std::span<const float> importance) {
  std::vector<std::byte> blocks(gguf_bytes(of.type, numbers.shape()));
  quantize(of.type, blocks.data(), floats(numbers), importance);
  std::vector<float> read(static_cast<std::size_t>(numbers.numel()));
  dequantize(of, read.data(), blocks);
  return read;
}

}  // namespace

void compare_with_gguf(const ModelTarget& target, const GgufReader& file, const Param& row,
                       ConstTensor value) {
  const std::string architecture = architecture_name(target);
  const ConstTensor expected =
      row.is_vocabulary() ? value.rows(0, target.config.vocab_size) : value;
  const Buffer buffer(Device::cpu, expected.bytes());
  const Tensor ours = buffer.tensor(expected.dtype(), expected.shape());
  if (is_cut_positions(target.config, row))
    std::memcpy(ours.data(), expected.data(), expected.bytes());
  const auto differ = [&](const std::string& name) {
    fail(Exit::difference, file.path(), ": ", name, ": differs from ", target.source.path());
  };
  const std::vector<ForeignName> names = written_gguf_tensors(architecture, target.config, row);
  if (names.empty()) return;
  for (const ForeignName& name : names) {
    const std::string& theirs = name.name;
    const Transform& transform = name.transform;
    const Stored stored(file, name, expected.dtype());
    if (!(stored.shape == transformed_shape(transform, expected.shape()))) differ(theirs);
    const bool rounds = is_decay(row) || std::ranges::any_of(transform, [](const Rearrange& step) {
                          return step.kind == Rearrange::Kind::shift;
                        });
    if (rounds) {  // there is no way back to all bits
      const Decay decay(row, expected);
      apply(transform, ours.reshape(stored.shape), decay.tensor());
      if (std::memcmp(ours.data(), stored.tensor.data(), ours.bytes()) != 0) differ(theirs);
      std::memcpy(ours.data(), expected.data(), expected.bytes());
      continue;
    }
    const GgufBlocks* const of = gguf_blocks(file.at(theirs).dtype_name);
    if (of == nullptr) {
      apply_inverse(transform, ours, stored.tensor);
      continue;
    }
    const Buffer turned(Device::cpu, stored.tensor.bytes());
    const Tensor wanted = turned.tensor(DType::f32, stored.shape);
    apply(transform, wanted, expected);
    if (!std::ranges::equal(floats(stored.tensor),
                            in_blocks(*of, wanted, importance_of(target, row, name, stored.shape))))
      differ(theirs);
    apply_inverse(transform, ours, wanted);
  }
  if (std::memcmp(ours.data(), expected.data(), expected.bytes()) != 0) differ(row.name());
}

void check_gguf_tensors(const ModelTarget& target, const ParamTable& table,
                        const GgufReader& file) {
  const std::string architecture = architecture_name(target);
  std::set<std::string> names;
  for (const Param& row : table.rows())
    for (const ForeignName& name : written_gguf_tensors(architecture, target.config, row))
      names.insert(name.name);
  for (const std::string& name : names_of_factors(target.config, architecture)) {
    names.insert(name);
    const Stored factors(file, {name}, DType::f32);
    if (!std::ranges::equal(floats(factors.tensor), frequency_factors(target.config)))
      fail(Exit::difference, file.path(), ": ", name, ": differs from ", target.source.path());
  }
  for (const auto& [name, tensor] : file.tensors())
    if (!names.contains(name))
      fail(Exit::difference, file.path(), ": tensor ", name, ": is none of the model's");
}

FolderFiles gguf_files() {
  const OwnFile own = [](const std::string& name) { return name == kModelGguf; };
  return {.own = [own](const std::string&) { return own; }};
}

std::unique_ptr<ModelSink> make_gguf_sink(const ModelTarget& target, const ParamTable& table,
                                          const RowTypes& types) {
  return std::make_unique<GgufSink>(target, table, types);
}

}  // namespace mt
