#include "formats/gguf/gguf_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/json.h"
#include "base/json_object.h"
#include "ckpt/tensor_numbers.h"
#include "ckpt/torch_file.h"
#include "formats/gguf/gguf_bert.h"
#include "formats/gguf/gguf_experts.h"
#include "formats/gguf/gguf_families.h"
#include "formats/gguf/gguf_latent.h"
#include "formats/gguf/gguf_mamba.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/hugging_face/config_families.h"
#include "model/model_table.h"

namespace mt {

namespace fs = std::filesystem;

constexpr const char* kPositions = "position_embd.weight";

std::optional<std::string> find_gguf(const std::string& path) {
  if (fs::is_directory(path)) {
    const bool there = fs::exists(path + "/model.gguf") && !fs::exists(path + "/config.json");
    return there ? std::optional(path + "/model.gguf") : std::nullopt;
  }
  return is_gguf_file(path) ? std::optional(path) : std::nullopt;
}

// --- Settings -----------------------------------------------------------------------------------

namespace {

std::vector<float> floats_of(const TensorSource& file, const std::string& name) {
  const Shape& shape = file.at(name).shape;
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  file.read_original(name, origin_of(shape.rank()), {numbers.data(), DType::f32, shape});
  return numbers;
}

// A file's settings, to be said as a config.json says them.
class Settings {
 public:
  explicit Settings(const GgufReader& file) : file_(file) {
    architecture_ = file_.value("general.architecture").as_text(where("general.architecture"));
    const bool experts =
        file_.find_value(own("expert_count")) != nullptr && size("expert_count") > 0;
    known_ = find_gguf_architecture(architecture_, experts);
    if (known_ == nullptr && find_gguf_architecture(architecture_, !experts) != nullptr)
      fail(Exit::bad_config, where(own("expert_count")), ": is ", size_or("expert_count", 0),
           ", but llama.cpp's ", architecture_, experts ? " is read without" : " has", " experts");
    if (known_ == nullptr)
      fail(Exit::bad_config, file.path(), ": is of architecture ", json_quoted(architecture_),
           ", expected one of ", gguf_architectures());
  }

  const std::string& architecture() const { return architecture_; }
  // Those that predict further tokens are behind them.
  std::int64_t further_layers() const { return size_or("nextn_predict_layers", 0); }
  std::int64_t layers() const {
    const std::int64_t all = size("block_count"), further = further_layers();
    if (further < 0 || further >= all)
      fail(Exit::bad_data, where(own("nextn_predict_layers")), ": is ", further, " of ", all,
           " layers");
    return all - further;
  }

  DType dtype() const {  // what most matrices are
    constexpr const char* kFileType = "general.file_type";
    if (file_.find_value(kFileType) == nullptr) return DType::f32;
    const std::int64_t type = file_.value(kFileType).as_integer(where(kFileType));
    return type == 1 ? DType::f16 : type == 32 ? DType::bf16 : DType::f32;
  }

  double attention_factor() const {
    const std::string key = own("rope.scaling.attn_factor");
    const double factor =
        file_.find_value(key) == nullptr ? 1 : file_.value(key).as_real(where(key));
    if (!(factor > 0) || std::isinf(factor))
      fail(Exit::bad_data, where(key), ": is ", factor, ", expected more than 0");
    return factor;
  }

  std::string config_json() const {
    const DistTensor& words = file_.at(kGgufWords);
    if (words.shape.rank() != 2)
      fail(Exit::bad_data, file_.path(), ": ", kGgufWords, " is ", words.shape,
           ", expected a matrix");
    if (size("block_count") > std::ssize(file_.tensors()))
      fail(Exit::bad_data, where(own("block_count")), ": is ", size("block_count"),
           " in a file of ", file_.tensors().size(), " tensors");
    JsonWriter json;
    json.begin_object().member("model_type", model_type()).member("vocab_size", words.shape[0]);
    json.member("torch_dtype", name_of(dtype()));
    json.member("tie_word_embeddings", !has_own_output());
    for (const auto& [ours, theirs] : {std::pair("bos", "bos"), {"pad", "padding"}})
      if (const auto id = token(theirs)) json.member(concat(ours, "_token_id"), *id);
    add_ends(json);
    if (architecture_ == "gpt2")
      add_gpt2(json);
    else if (known_->bert)
      read_gguf_bert(json, {file_, architecture_});
    else if (known_->mamba)
      read_gguf_mamba(json, {file_, architecture_}, *known_);
    else if (known_->experts == GgufExperts::told)
      read_gguf_latent(json, file_);
    else
      add_llama(json);
    return json.end_object().text();
  }

 private:
  std::optional<std::int64_t> token(std::string_view name) const {
    const std::string key = concat("tokenizer.ggml.", name, "_token_id");
    if (file_.find_value(key) == nullptr) return {};
    return file_.value(key).as_integer(where(key));
  }
  // One token, or all at which llama.cpp ends a text.
  void add_ends(JsonWriter& json) const {
    std::vector<std::int64_t> ends;
    for (const char* const name : {"eos", kMoreEnds[0], kMoreEnds[1]})
      if (const auto id = token(name); id && std::ranges::find(ends, *id) == ends.end())
        ends.push_back(*id);
    if (ends.size() == 1) json.member("eos_token_id", ends[0]);
    if (ends.size() < 2) return;
    json.key("eos_token_id").begin_array();
    for (const std::int64_t id : ends) json.value(id);
    json.end_array();
  }
  std::string own(const std::string& name) const { return concat(architecture_, ".", name); }
  std::string where(const std::string& key) const { return concat(file_.path(), ": ", key); }
  std::int64_t size(const std::string& name) const {
    return file_.value(own(name)).as_integer(where(own(name)));
  }
  std::int64_t size_or(const std::string& name, std::int64_t other) const {
    return file_.find_value(own(name)) == nullptr ? other : size(name);
  }
  void add_real(JsonWriter& json, const char* member, const std::string& name) const {
    if (!std::isfinite(file_.value(own(name)).as_real(where(own(name)))))
      fail(Exit::bad_data, where(own(name)), ": is not finite");
    json.key(member).raw(file_.value(own(name)).json());  // the decimal that was rounded to float32
  }
  bool in_first_layer(const char* name) const {
    return file_.find(concat("blk.0.", name)) != nullptr;
  }

  // Llama's architecture with a window is Mistral's, and OLMo 2's is OLMo 3's.
  std::string model_type() const {
    if (known_->bert) return gguf_bert_type(file_);
    if (known_->mamba) return std::string(known_->model_type);
    if (known_->experts == GgufExperts::told) return gguf_latent_type(file_);
    const bool window = size_or("attention.sliding_window", 0) > 0;
    if (window && known_->model_type == "llama") return "mistral";
    return window && known_->model_type == "olmo2" ? "olmo3" : std::string(known_->model_type);
  }

  // Whether it has one that is not the words again, where llama.cpp wants one of a tied model, too.
  bool has_own_output() const {
    const DistTensor* const output = file_.find(kGgufOutput);
    if (output == nullptr || !known_->wants_output) return output != nullptr;
    const DistTensor& words = file_.at(kGgufWords);
    bool same = words.shape == output->shape && words.dtype_name == output->dtype_name;
    constexpr std::int64_t kBlock = 1 << 18;
    if (same)
      for_each_block(words.shape, kBlock, [&](const Shape& offset, const Shape& shape) {
        if (!same) return;
        const Buffer a(Device::cpu, 2 * static_cast<std::size_t>(shape.numel()) * sizeof(float));
        const Tensor of_words = a.tensor(DType::f32, shape),
                     of_output{of_words.as<float>() + shape.numel(), DType::f32, shape};
        file_.read_original(words.key, offset, of_words);
        file_.read_original(output->key, offset, of_output);
        same = std::memcmp(of_words.data(), of_output.data(), of_words.bytes()) == 0;
      });
    return !same;
  }

  void add_gpt2(JsonWriter& json) const {
    json.member("n_layer", size("block_count")).member("n_embd", size("embedding_length"));
    json.member("n_head", size("attention.head_count"));
    json.member("n_inner", size("feed_forward_length"));
    json.member("n_positions", size("context_length"));
    add_real(json, "layer_norm_epsilon", "attention.layer_norm_epsilon");
  }

  void add_llama(JsonWriter& json) const {
    const std::int64_t heads = size("attention.head_count"), width = size("embedding_length");
    const std::int64_t channels =
        size_or("attention.key_length", width / std::max<std::int64_t>(heads, 1));
    if (heads < 1 || channels < 1 || heads > std::numeric_limits<int>::max() / channels)
      fail(Exit::bad_data, where(own("attention.head_count")), ": is ", heads, " of ", channels,
           " channels");
    const std::int64_t turned = size_or("rope.dimension_count", channels);
    const bool in_part = turning_part(model_type()).has_value();
    for (const char* name : {"attention.value_length", "rope.dimension_count"})
      if (size_or(name, channels) != channels &&
          (!in_part || name == std::string_view("attention.value_length")))
        fail(Exit::bad_config, where(own(name)), ": is ", size(name), ", expected ", channels,
             " as of all channels of a head");
    json.member("num_hidden_layers", layers()).member("hidden_size", width);
    json.member("num_attention_heads", heads).member("head_dim", channels);
    json.member("num_key_value_heads", size_or("attention.head_count_kv", heads));
    json.member("intermediate_size", size("feed_forward_length"));
    json.member("max_position_embeddings", size("context_length"));
    add_real(
        json, epsilon_name(model_type()),
        known_->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
    if (in_part) json.member("partial_rotary_factor", rotary_percent_of(turned, channels));
    if (architecture_ == "llama" && size_or("attention.sliding_window", 0) > 0)
      json.member("sliding_window", size("attention.sliding_window"));
    if (architecture_ == "stablelm")
      json.member("use_qkv_bias", in_first_layer("attn_q.bias"))
          .member("use_parallel_residual", !in_first_layer("ffn_norm.weight"));
    const GgufSettings settings(file_, architecture_);
    if (known_->experts != GgufExperts::none) read_gguf_experts(json, settings, *known_);
    if (has_bias_flags(model_type()))
      json.member("attention_bias", in_first_layer("attn_output.bias"))
          .member("mlp_bias", in_first_layer("ffn_up.bias"));
    if (file_.find_value(own("rope.freq_base")) != nullptr)
      add_real(json, "rope_theta", "rope.freq_base");
    read_gguf_family(json, settings, *known_, {layers(), width, heads, channels});
    add_scaling(json);
  }

  void add_scaling(JsonWriter& json) const {
    const std::string key = own("rope.scaling.type");
    const std::string kind =
        file_.find_value(key) == nullptr ? "none" : file_.value(key).as_text(where(key));
    if (kind != "none" && kind != "linear" && kind != "yarn")
      fail(Exit::bad_config, where(key), ": is ", json_quoted(kind),
           ", expected none, linear or yarn");
    if (architecture_ == "phi3") return add_factors(json);
    const bool slowed = file_.find(kGgufFrequencies) != nullptr;
    if (kind != "none" && slowed)
      fail(Exit::bad_config, where(key), ": is ", kind, ", but channels are slowed by ",
           kGgufFrequencies, " too");
    const bool gpt_oss = architecture_ == "gpt-oss";  // whose class scales where nothing is said
    if (kind == "none" && !slowed && !gpt_oss) return;
    json.key("rope_scaling").begin_object();
    if (kind == "none" && !slowed) {
      json.member("rope_type", "default").end_object();
      return;
    }
    json.member("rope_type", slowed ? "llama3" : kind);
    if (gpt_oss && kind == "yarn") json.member("truncate", false);
    if (slowed) {
      const std::vector<float> factors = floats_of(file_, kGgufFrequencies);
      json.member("factor", factors.empty() ? 0.0 : static_cast<double>(factors.back()));
      json.member("low_freq_factor", 1.0).member("high_freq_factor", 4.0);
      json.member("original_max_position_embeddings", 8192);
    } else {
      add_real(json, "factor", "rope.scaling.factor");
      if (kind == "yarn") add_yarn(json);
    }
    json.end_object();
  }

  // Those of texts of few tokens and of many; by what both are multiplied comes with them.
  void add_factors(JsonWriter& json) const {
    if (file_.find(kGgufFactors[0]) == nullptr) return;
    json.member("original_max_position_embeddings",
                size_or("rope.scaling.original_context_length", size("context_length")));
    json.key("rope_scaling").begin_object().member("rope_type", "longrope");
    json.member("attention_factor", attention_factor());
    for (const auto& [member, name] :
         {std::pair("short_factor", kGgufFactors[0]), {"long_factor", kGgufFactors[1]}}) {
      json.key(member).begin_array();
      for (const float factor : floats_of(file_, name)) json.value(factor);
      json.end_array();
    }
    json.end_object();
  }

  void add_yarn(JsonWriter& json) const {
    json.member("original_max_position_embeddings",
                size_or("rope.scaling.original_context_length", size("context_length")));
    for (const char* name : {"beta_fast", "beta_slow"})
      if (const std::string key = concat("rope.scaling.yarn_", name);
          file_.find_value(own(key)) != nullptr)
        add_real(json, name, key);
    for (const char* name : {"attn_factor", "yarn_attn_factor", "yarn_ext_factor"})
      if (const std::string key = own(concat("rope.scaling.", name));
          file_.find_value(key) != nullptr && file_.value(key).as_real(where(key)) != 1)
        fail(Exit::bad_config, where(key), ": is ", file_.value(key).as_real(where(key)),
             ", expected 1 of yarn");
  }

  const GgufReader& file_;
  std::string architecture_;
  const GgufArchitecture* known_ = nullptr;
};

// By how much a tensor's numbers are more than ours.
float shift_of(const Transform& transform) {
  for (const Rearrange& step : transform)
    if (step.kind == Rearrange::Kind::shift) return static_cast<float>(step.factor);
  return 0;
}

// What a tensor's numbers are of ours.
struct Made {
  float shift = 0;
  bool decays = false;

  bool otherwise() const { return shift != 0 || decays; }
  float ours(float number) const { return decays ? log_of_decay(number) : number - shift; }
  float theirs(float number) const { return decays ? decay_of(number) : number + shift; }
};

// Whether a narrower type has all numbers of a tensor of float32, or those of which it was made.
bool fits(const TensorSource& file, const DistTensor& tensor, DType dtype, const Made& made) {
  constexpr std::int64_t kBlock = 1 << 16;
  bool all = true;
  for_each_block(tensor.shape, kBlock, [&](const Shape& offset, const Shape& shape) {
    const auto count = static_cast<std::size_t>(shape.numel());
    std::vector<float> numbers(count), back(count);
    const Buffer buffer(Device::cpu, count * size_of(dtype));
    const Tensor narrow = buffer.tensor(dtype, shape);
    file.read_original(tensor.key, offset, {numbers.data(), DType::f32, shape});
    const Buffer shifted(Device::cpu, count * sizeof(float));
    const Tensor ours = shifted.tensor(DType::f32, shape);
    for (std::size_t i = 0; i < count; ++i) ours.as<float>()[i] = made.ours(numbers[i]);
    dense(DType::f32, shape, {static_cast<const std::byte*>(ours.data()), ours.bytes()})
        .copy_to(origin_of(shape.rank()), narrow);
    dense(dtype, shape, {static_cast<const std::byte*>(narrow.data()), narrow.bytes()})
        .copy_to(origin_of(shape.rank()), {back.data(), DType::f32, shape});
    if (made.otherwise())
      for (float& number : back) number = made.theirs(number);
    all = all && std::memcmp(numbers.data(), back.data(), count * sizeof(float)) == 0;
  });
  return all;
}

}  // namespace

// --- The model ----------------------------------------------------------------------------------

GgufSource::GgufSource(const std::string& path, const ModelSourceOptions& options) {
  path_ = path;
  format_ = kGgufFormat;
  auto reader = std::make_unique<GgufReader>(path);
  const Settings settings(*reader);
  architecture_ = settings.architecture();
  const std::string json = settings.config_json();
  const HuggingFaceConfig read = parse_hugging_face_config(json, path);
  *config_ = read.model;
  lacking_ = read.lacking;
  notes_ = read.notes;
  dtype_ = settings.dtype();
  try {
    config_->complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  if (options.vocab_size && *options.vocab_size != config_->vocab_size)
    fail(Exit::bad_config, path, ": has ", config_->vocab_size, " tokens, --true-vocab-size is ",
         *options.vocab_size);
  companions_ = {{.name = "config.json", .content = json}};
  const GgufTokenizer tokenizer = read_gguf_tokenizer(reader->values(), path, config_->vocab_size);
  companions_.insert(companions_.end(), tokenizer.files.begin(), tokenizer.files.end());
  tokenizer_problem_ = tokenizer.problem;
  if (!tokenizer.problem.empty())
    notes_.push_back(concat(tokenizer.problem, ": OUTPUT is left without its tokenizer"));
  for (std::int64_t i = 0; i < settings.further_layers(); ++i)
    passed_over_.push_back(concat("blk.", settings.layers() + i, "."));
  if (!passed_over_.empty())
    notes_.push_back(concat(path, ": passed over: ", passed_over_[0],
                            "*, a layer that predicts a further token"));
  tensors_ = std::move(reader);
  std::set<std::string> shifted;  // what is 1 + our weight
  for (const ParamTable rows = model_rows(*config_); const Param& row : rows.rows())
    for (const ForeignName& name : names_of(row))
      if (shift_of(name.transform) != 0) shifted.insert(name.name);
  std::map<std::string, std::int64_t> in_blocks;  // tensors, by the blocks' names
  for (const auto& [name, tensor] : tensors_->tensors()) {
    if (gguf_blocks(tensor.dtype_name) != nullptr) ++in_blocks[tensor.dtype_name];
    const bool single = tensor.shape.rank() == 1 || name == kPositions ||
                        name == "token_types.weight" || is_gguf_float32(name);
    if (tensor.dtype == dtype_ ||
        (single && tensor.dtype == DType::f32 &&
         fits(*tensors_, tensor, dtype_,
              {.shift = shifted.contains(name) ? 1.0F : 0.0F, .decays = is_decay(name)})))
      exact_.insert(name);
  }
  std::string counts;
  for (const auto& [name, count] : in_blocks)
    counts += concat(counts.empty() ? "" : ", ", count, " tensors of ", name);
  if (!counts.empty())
    notes_.push_back(
        concat(path, ": ", counts, " are dequantized: they stay as near as their blocks are"));
  const double attention_factor = settings.attention_factor();
  if (architecture_ == "phi3") return;  // which says it with its factors
  if (config_->use_rope_scaling)
    take_frequencies(attention_factor);
  else if (attention_factor != 1 && config_->has_rope())
    config_->rope_attention_factor = attention_factor;
}

// Llama 3.1's, or any others.
void GgufSource::take_frequencies(double attention_factor) {
  const std::vector<float> found = floats_of(*tensors_, kGgufFrequencies),
                           expected = frequency_factors(*config_);
  const auto near = [](float a, float b) { return std::fabs(a - b) <= 1e-5F * b; };
  config_->rope_attention_factor = attention_factor;
  if (std::ranges::equal(found, expected, near)) return;
  config_->use_rope_scaling = false;
  config_->rope_scaling_factor = ModelConfig().rope_scaling_factor;
  for (const float factor : found)
    config_->rope_frequency_factors += concat(config_->rope_frequency_factors.empty() ? "" : ",",
                                              JsonWriter().value(factor).text());
  try {
    config_->complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path_, ": ", kGgufFrequencies, ": ", error.what());
  }
}

DType GgufSource::dtype_of(const Param& row, const std::string& state) const {
  const DType stored = HuggingFaceSource::dtype_of(row, state);
  const auto exact = [&](const ForeignName& name) { return exact_.contains(name.name); };
  return dtype_ == DType::f32 || std::ranges::all_of(names_of(row), exact) ? dtype_ : stored;
}

// What is shifted, or a decay, becomes ours before it is rounded to what it was of.
void GgufSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (is_cut_positions(*config_, row)) std::memset(out.data(), 0, out.bytes());
  const std::vector<ForeignName> names = names_of(row);
  const bool shifts = names.size() == 1 && shift_of(names[0].transform) != 0;
  if (!shifts && !is_decay(row)) return HuggingFaceSource::read(row, state, out);
  const Buffer buffer(Device::cpu, 2 * static_cast<std::size_t>(out.numel()) * sizeof(float));
  const Tensor wide = buffer.tensor(DType::f32, out.shape());
  const DType dtype = dtype_of(row, state);
  const Tensor narrow{wide.as<float>() + wide.numel(), dtype, out.shape()};
  HuggingFaceSource::read(row, state, wide);
  if (is_decay(row))
    for (std::int64_t i = 0; i < wide.numel(); ++i)
      wide.as<float>()[i] = log_of_decay(wide.as<float>()[i]);
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    dense(from.dtype(), out.shape(), {static_cast<const std::byte*>(from.data()), from.bytes()})
        .copy_to(origin_of(out.shape().rank()), to);
  };
  copy(narrow, wide);
  copy(out, narrow);
}

// The companions hold what a folder of Hugging Face's would.
std::unique_ptr<Tokenizer> GgufSource::make_tokenizer(const TokenizerOptions& others) const {
  if (!tokenizer_problem_.empty())
    fail(Exit::bad_config, tokenizer_problem_, "; --tokenizer-type names another tokenizer");
  const GgufTokenizer tokenizer{.files = companions_};
  if (auto made = tokenizer.make(concat(path_, ": its tokenizer"))) return made;
  return ModelSource::make_tokenizer(others);
}

}  // namespace mt
