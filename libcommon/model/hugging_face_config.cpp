#include "model/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "text/hf_object.h"

namespace mt {

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

// --- Reading ------------------------------------------------------------------------------------

namespace {

class ConfigReader {
 public:
  explicit ConfigReader(const HfObject& object)
      : object_(object), type_(object.text("model_type")) {}

  GptConfig read() {
    if (type_ == "gpt2")
      read_gpt2();
    else if (type_ == "llama" || type_ == "mistral" || is_qwen() || type_ == "nemotron")
      read_llama();
    else
      object_.refuse("model_type ", quoted(type_),
                     " is not known; expected gpt2, llama, mistral, qwen2, qwen3 or nemotron");
    model_.vocab_size = size("vocab_size");
    if (object_.has("initializer_range"))
      model_.init_method_std = object_.real("initializer_range");
    return model_;
  }

 private:
  bool is_qwen() const { return type_ == "qwen2" || type_ == "qwen3"; }
  std::int64_t size(const char* name) const { return object_.number(name, kMost); }
  double real_or(const char* name, double other) const {
    return object_.has(name) ? object_.real(name) : other;
  }
  void expect_text(const char* name, std::string_view expected) const {
    if (object_.text_or(name, expected) != expected)
      object_.refuse(quoted(name), " is ", quoted(object_.text(name)), ", expected ",
                     quoted(expected));
  }
  void expect_flag(const char* name, bool expected) const {
    if (object_.flag_or(name, expected) != expected)
      object_.refuse(quoted(name), " is ", expected ? "false" : "true", ", which is not supported");
  }

  void read_gpt2() {
    model_.num_layers = size("n_layer");
    model_.hidden_size = size("n_embd");
    model_.num_attention_heads = size("n_head");
    model_.max_position_embeddings = size("n_positions");
    if (object_.has("n_inner")) model_.ffn_hidden_size = size("n_inner");
    model_.norm_epsilon = real_or("layer_norm_epsilon", 1e-5);
    model_.attention_dropout = real_or("attn_pdrop", 0.1);
    model_.hidden_dropout = real_or("resid_pdrop", 0.1);
    model_.untie_embeddings_and_output_weights = !object_.flag_or("tie_word_embeddings", true);
    const std::string_view activation = object_.text_or("activation_function", "gelu_new");
    model_.bias_gelu_fusion = activation == "gelu_new" || activation == "gelu_pytorch_tanh";
    if (!model_.bias_gelu_fusion) expect_text("activation_function", "gelu");
    expect_flag("scale_attn_weights", true);
    expect_flag("scale_attn_by_inverse_layer_idx", false);
    expect_flag("add_cross_attention", false);
  }

  void read_llama() {
    model_.position_embedding_type = "rope";
    model_.num_layers = size("num_hidden_layers");
    model_.hidden_size = size("hidden_size");
    model_.num_attention_heads = size("num_attention_heads");
    model_.ffn_hidden_size = size("intermediate_size");
    model_.max_position_embeddings = size("max_position_embeddings");
    if (object_.has("head_dim")) model_.kv_channels = size("head_dim");
    const std::int64_t heads = model_.num_attention_heads;
    model_.num_query_groups =
        object_.has("num_key_value_heads") ? size("num_key_value_heads") : heads;
    model_.group_query_attention = model_.num_query_groups != heads;
    model_.attention_dropout = real_or("attention_dropout", 0);
    model_.hidden_dropout = 0;
    model_.untie_embeddings_and_output_weights = !object_.flag_or("tie_word_embeddings", false);
    read_kind();
    read_biases();
    read_rope();
    if (type_ == "mistral") read_window();
    if (is_qwen()) read_qwen_windows();
  }

  void read_kind() {
    const bool nemotron = type_ == "nemotron";
    expect_text("hidden_act", nemotron ? "relu2" : "silu");
    model_.swiglu = !nemotron;
    model_.squared_relu = model_.apply_layernorm_1p = nemotron;
    model_.bias_gelu_fusion = false;
    model_.normalization = nemotron ? "LayerNorm" : "RMSNorm";
    model_.norm_epsilon = nemotron ? real_or("norm_eps", 1e-5) : real_or("rms_norm_eps", 1e-6);
    model_.qk_layernorm = type_ == "qwen3";
  }

  void read_biases() {
    const bool attention = object_.flag_or("attention_bias", false),
               mlp = object_.flag_or("mlp_bias", false);
    if (type_ == "mistral" || is_qwen()) {
      expect_flag("attention_bias", false);
      expect_flag("mlp_bias", false);
    } else if (attention != mlp) {
      object_.refuse("\"attention_bias\" and \"mlp_bias\" differ, which is not supported");
    }
    model_.add_bias_linear = attention;
    model_.add_qkv_bias = type_ == "qwen2";
  }

  void read_rope() {
    const char* const name = object_.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    double theta = real_or("rope_theta", 10000);
    model_.rotary_percent = real_or("partial_rotary_factor", type_ == "nemotron" ? 0.5 : 1);
    if (object_.has(name)) {
      const HfObject rope = object_.object(name);
      if (rope.has("rope_theta")) theta = rope.real("rope_theta");
      if (rope.has("partial_rotary_factor"))
        model_.rotary_percent = rope.real("partial_rotary_factor");
      read_scaling(rope);
    }
    if (!(theta >= 1 && theta < 0x1p62) || theta != std::floor(theta))
      object_.refuse("\"rope_theta\" is ", theta, ", expected a whole number");
    model_.rotary_base = static_cast<std::int64_t>(theta);
  }

  void read_scaling(const HfObject& rope) {
    static constexpr std::string_view kKnown[] = {
        "rope_type",        "type",
        "rope_theta",       "partial_rotary_factor",
        "factor",           "low_freq_factor",
        "high_freq_factor", "original_max_position_embeddings"};
    for (const std::string_view name : rope.names())
      if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
        rope.refuse(quoted(name), " is not supported");
    const std::string_view kind = rope.text_or("rope_type", rope.text_or("type", "default"));
    if (kind == "linear") {
      model_.rotary_interpolation = rope.real("factor");
    } else if (kind == "llama3") {
      if (rope.real("low_freq_factor") != 1 || rope.real("high_freq_factor") != 4 ||
          rope.real("original_max_position_embeddings") != 8192)
        rope.refuse("low_freq_factor, high_freq_factor and original_max_position_embeddings: ",
                    "expected 1, 4 and 8192");
      model_.use_rope_scaling = true;
      model_.rope_scaling_factor = rope.real("factor");
    } else if (kind != "default") {
      rope.refuse("rope_type ", quoted(kind), ": expected default, linear or llama3");
    }
  }

  void set_window(std::int64_t tokens) {
    if (tokens < 1) object_.refuse("\"sliding_window\" is ", tokens, ", expected at least 1");
    model_.window_size = concat(tokens - 1, ",0");
  }

  void read_window() {
    const bool given = std::ranges::count(object_.names(), "sliding_window") > 0;
    if (!given) return set_window(4096);
    if (object_.has("sliding_window")) set_window(size("sliding_window"));
  }

  // Layers from max_window_layers on have a window, unless layer_types says which.
  void read_qwen_windows() {
    if (!object_.flag_or("use_sliding_window", false)) return;
    set_window(object_.has("sliding_window") ? size("sliding_window") : 4096);
    const std::int64_t full = object_.has("max_window_layers") ? size("max_window_layers") : 28;
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer)
      model_.window_attn_skip_freq.push_back(layer >= full);
    if (!object_.has("layer_types")) return;
    simdjson::dom::array types;
    if (object_.member("layer_types").get(types) ||
        types.size() != static_cast<std::size_t>(model_.num_layers))
      object_.refuse("\"layer_types\": expected one for each layer");
    model_.window_attn_skip_freq.clear();
    for (const simdjson::dom::element entry : types) {
      std::string_view kind;
      if (entry.get(kind) || (kind != "sliding_attention" && kind != "full_attention"))
        object_.refuse("\"layer_types\": expected sliding_attention or full_attention");
      model_.window_attn_skip_freq.push_back(kind == "sliding_attention");
    }
  }

  const HfObject& object_;
  std::string_view type_;
  GptConfig model_;
};

}  // namespace

static DType dtype_of(const HfObject& object) {
  const char* const name = object.has("dtype") ? "dtype" : "torch_dtype";
  const std::string_view text = object.text_or(name, "float32");
  for (const DType known : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (text == name_of(known)) return known;
  object.refuse(quoted(name), " is ", quoted(text), ", expected a floating-point type");
}

HuggingFaceConfig parse_hugging_face_config(const std::string& json, const std::string& path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(json).get(root))
    fail(Exit::bad_data, path, ": ", simdjson::error_message(error));
  const HfObject object(root, path);
  return {ConfigReader(object).read(), dtype_of(object)};
}

// --- Writing ------------------------------------------------------------------------------------

namespace {

struct Kind {
  const char *type, *architecture;
};

[[noreturn]] void refuse(const char* what) {
  fail(Exit::bad_config, what, ": no model of transformers has that");
}

void check_gpt2(const GptConfig& c) {
  if (c.swiglu || c.squared_relu) refuse("learned positions without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse("learned positions with norms that are not LayerNorm");
  if (!c.add_bias_linear) refuse("learned positions without biases");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse("learned positions with query groups or --kv-channels");
  if (!c.window_size.empty()) refuse("learned positions with --window-size");
}

Kind kind_of(const GptConfig& c) {
  if (c.position_embedding_type == "learned_absolute") {
    check_gpt2(c);
    return {"gpt2", "GPT2LMHeadModel"};
  }
  if (c.position_embedding_type != "rope") refuse("--position-embedding-type none");
  if (c.rotary_interleaved) refuse("--rotary-interleaved");
  const bool windows = !c.window_size.empty(), qkv_only = c.has_qkv_bias() && !c.add_bias_linear;
  if (c.squared_relu && c.normalization == "LayerNorm" && c.apply_layernorm_1p) {
    if (qkv_only || windows || c.qk_layernorm)
      refuse("--squared-relu with --add-qkv-bias, --window-size or --qk-layernorm");
    return {"nemotron", "NemotronForCausalLM"};
  }
  if (!c.swiglu || c.normalization != "RMSNorm" || c.apply_layernorm_1p)
    refuse("rotary positions without --swiglu and plain RMSNorm");
  if (c.rotary_percent != 1) refuse("--rotary-percent with --swiglu");
  if (c.add_bias_linear && (windows || c.qk_layernorm))
    refuse("biases with --window-size or --qk-layernorm");
  if (c.qk_layernorm && qkv_only) refuse("--qk-layernorm with --add-qkv-bias");
  if (c.qk_layernorm) return {"qwen3", "Qwen3ForCausalLM"};
  if (qkv_only) return {"qwen2", "Qwen2ForCausalLM"};
  if (!windows) return {"llama", "LlamaForCausalLM"};
  if (!c.window_attn_skip_freq.empty()) refuse("--window-attn-skip-freq");
  return {"mistral", "MistralForCausalLM"};
}

void write_gpt2(JsonWriter& json, const GptConfig& c) {
  json.member("n_layer", c.num_layers).member("n_embd", c.hidden_size);
  json.member("n_head", c.num_attention_heads).member("n_inner", c.ffn());
  json.member("n_positions", c.max_position_embeddings);
  json.member("layer_norm_epsilon", c.norm_epsilon);
  json.member("attn_pdrop", c.attention_dropout).member("resid_pdrop", c.hidden_dropout);
  json.member("embd_pdrop", c.hidden_dropout);
  json.member("activation_function", c.activation() == Activation::gelu_tanh ? "gelu_new" : "gelu");
}

void write_rope(JsonWriter& json, const GptConfig& c) {
  json.member("rope_theta", c.rotary_base);
  if (c.rotary_percent != 1) json.member("partial_rotary_factor", c.rotary_percent);
  json.key("rope_scaling");
  if (c.use_rope_scaling && c.rotary_interpolation)
    refuse("--use-rope-scaling with --rotary-seq-len-interpolation-factor");
  if (c.use_rope_scaling)
    json.begin_object()
        .member("rope_type", "llama3")
        .member("factor", c.rope_scaling_factor)
        .member("low_freq_factor", 1.0)
        .member("high_freq_factor", 4.0)
        .member("original_max_position_embeddings", 8192)
        .end_object();
  else if (c.rotary_interpolation)
    json.begin_object()
        .member("rope_type", "linear")
        .member("factor", *c.rotary_interpolation)
        .end_object();
  else
    json.null();
}

std::int64_t window_of(const GptConfig& c) {
  GptConfig everywhere = c;
  everywhere.window_attn_skip_freq.clear();
  return everywhere.window(0) + 1;
}

void write_windows(JsonWriter& json, const GptConfig& c, std::string_view type) {
  const bool windows = !c.window_size.empty() && window_of(c) > 0;
  json.key("sliding_window");
  if (windows)
    json.value(window_of(c));
  else
    json.null();
  if (type == "mistral") return;
  json.member("use_sliding_window", windows).key("layer_types").begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(c.window(layer) < 0 ? "full_attention" : "sliding_attention");
  json.end_array();
}

void write_llama(JsonWriter& json, const GptConfig& c, std::string_view type) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads()).member("head_dim", c.head_dim());
  json.member("intermediate_size", c.ffn());
  json.member("max_position_embeddings", c.max_position_embeddings);
  json.member(type == "nemotron" ? "norm_eps" : "rms_norm_eps", c.norm_epsilon);
  json.member("hidden_act", type == "nemotron" ? "relu2" : "silu");
  json.member("attention_dropout", c.attention_dropout);
  if (type == "llama" || type == "nemotron")
    json.member("attention_bias", c.add_bias_linear).member("mlp_bias", c.add_bias_linear);
  if (type == "qwen3") json.member("attention_bias", false);
  write_rope(json, c);
  if (type != "llama" && type != "nemotron") write_windows(json, c, type);
}

// Members of a config.json that settings of ours stand for, in any generation of transformers.
bool is_ours(std::string_view name) {
  static constexpr std::string_view kOurs[] = {"architectures",
                                               "model_type",
                                               "torch_dtype",
                                               "dtype",
                                               "vocab_size",
                                               "tie_word_embeddings",
                                               "initializer_range",
                                               "n_layer",
                                               "n_embd",
                                               "n_head",
                                               "n_inner",
                                               "n_positions",
                                               "layer_norm_epsilon",
                                               "attn_pdrop",
                                               "resid_pdrop",
                                               "embd_pdrop",
                                               "activation_function",
                                               "num_hidden_layers",
                                               "hidden_size",
                                               "num_attention_heads",
                                               "num_key_value_heads",
                                               "head_dim",
                                               "intermediate_size",
                                               "rms_norm_eps",
                                               "max_position_embeddings",
                                               "norm_eps",
                                               "hidden_act",
                                               "attention_dropout",
                                               "attention_bias",
                                               "mlp_bias",
                                               "rope_theta",
                                               "rope_scaling",
                                               "rope_parameters",
                                               "partial_rotary_factor",
                                               "sliding_window",
                                               "use_sliding_window",
                                               "layer_types",
                                               "max_window_layers"};
  return std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs);
}

// Llama's mathematics under Mistral's name, where that is what the model was called.
Kind kind_like(const GptConfig& c, std::string_view original_type) {
  const Kind kind = kind_of(c);
  const bool renamed =
      std::string_view(kind.type) == "llama" && original_type == "mistral" && !c.add_bias_linear;
  return renamed ? Kind{"mistral", "MistralForCausalLM"} : kind;
}

}  // namespace

std::string hugging_face_config(const GptConfig& model, DType dtype, const std::string& original) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(original.empty() ? "{}" : original).get(root))
    fail(Exit::bad_data, "config.json: ", simdjson::error_message(error));
  const HfObject before(root, "config.json");
  const std::string_view before_type = before.text_or("model_type", "");
  const Kind kind = kind_like(model, before_type);
  const std::string_view type = kind.type;
  JsonWriter json;
  json.begin_object().key("architectures").begin_array().value(kind.architecture).end_array();
  json.member("model_type", type);
  if (type == "gpt2")
    write_gpt2(json, model);
  else
    write_llama(json, model, type);
  json.member("vocab_size", model.vocab_size);
  json.member("tie_word_embeddings", !model.untie_embeddings_and_output_weights);
  json.member("initializer_range", model.init_method_std);
  json.member("torch_dtype", name_of(dtype));
  if (type == before_type)
    for (const std::string_view name : before.names())
      if (!is_ours(name)) json.key(name).raw(simdjson::minify(before.member(name)));
  return json.end_object().text() + "\n";
}

}  // namespace mt
