#include "formats/hugging_face/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/allowance.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_place.h"

namespace mt {

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

// --- Reading ------------------------------------------------------------------------------------

namespace {

class ConfigReader {
 public:
  explicit ConfigReader(const JsonObject& object)
      : object_(object), type_(object.text("model_type")) {}

  ModelConfig read() {
    if (type_ == "gpt2")
      read_gpt2();
    else if (type_ == "llama" || type_ == "mistral" || type_ == "mixtral" || type_ == "gemma" ||
             is_qwen() || type_ == "nemotron")
      read_llama();
    else if (type_ == "megatron-bert")
      read_bert();
    else if (type_ == "mamba2")
      read_mamba();
    else if (type_ == "nemotron_h")
      read_nemotron_h();
    else if (type_ == "t5")
      read_t5();
    else if (type_ == "bert")
      object_.refuse(
          "model_type \"bert\" has its norms behind what they are in front of in "
          "Megatron's BERT, megatron-bert: one does not become the other");
    else
      object_.refuse("model_type ", json_quoted(type_),
                     " is not known; expected gpt2, llama, mistral, mixtral, gemma, qwen2, qwen3, "
                     "nemotron, megatron-bert, mamba2, nemotron_h or t5");
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
      object_.refuse(json_quoted(name), " is ", json_quoted(object_.text(name)), ", expected ",
                     json_quoted(expected));
  }
  void expect_flag(const char* name, bool expected) const {
    if (object_.flag_or(name, expected) != expected)
      object_.refuse(json_quoted(name), " is ", expected ? "false" : "true",
                     ", which is not supported");
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
    model_.untie_embeddings_and_output_weights =
        !object_.flag_or("tie_word_embeddings", type_ == "gemma");
    read_kind();
    read_biases();
    read_rope();
    if (type_ == "mistral") read_window();
    if (type_ == "mixtral") read_experts();
    if (is_qwen()) read_qwen_windows();
  }

  void read_kind() {
    const bool nemotron = type_ == "nemotron", gemma = type_ == "gemma";
    expect_text("hidden_act", nemotron ? "relu2" : gemma ? "gelu_pytorch_tanh" : "silu");
    if (gemma) model_.family = ModelFamily::gemma;
    model_.swiglu = !nemotron && !gemma;
    model_.squared_relu = nemotron;
    model_.apply_layernorm_1p = nemotron || gemma;
    model_.bias_gelu_fusion = false;
    model_.normalization = nemotron ? "LayerNorm" : "RMSNorm";
    model_.norm_epsilon = nemotron ? real_or("norm_eps", 1e-5) : real_or("rms_norm_eps", 1e-6);
    model_.qk_layernorm = type_ == "qwen3";
  }

  void read_biases() {
    const bool attention = object_.flag_or("attention_bias", false),
               mlp = object_.flag_or("mlp_bias", false);
    if (type_ == "mistral" || type_ == "mixtral" || type_ == "gemma" || is_qwen()) {
      expect_flag("attention_bias", false);
      expect_flag("mlp_bias", false);
    } else if (attention != mlp) {
      object_.refuse("\"attention_bias\" and \"mlp_bias\" differ, which is not supported");
    }
    model_.add_bias_linear = attention;
    model_.add_qkv_bias = type_ == "qwen2";
  }

  void read_experts() {
    model_.family = ModelFamily::mixtral;
    model_.num_experts = size("num_local_experts");
    model_.moe_router_topk = size("num_experts_per_tok");
    model_.moe_aux_loss_coeff = real_or("router_aux_loss_coef", 0.001);
    if (object_.has("sliding_window")) set_window(size("sliding_window"));
  }

  void read_bert() {
    model_.family = ModelFamily::bert;
    model_.num_layers = size("num_hidden_layers");
    model_.hidden_size = size("hidden_size");
    model_.num_attention_heads = size("num_attention_heads");
    model_.ffn_hidden_size = size("intermediate_size");
    model_.max_position_embeddings = size("max_position_embeddings");
    model_.norm_epsilon = real_or("layer_norm_eps", 1e-12);
    model_.attention_dropout = real_or("attention_probs_dropout_prob", 0.1);
    model_.hidden_dropout = real_or("hidden_dropout_prob", 0.1);
    expect_text("hidden_act", "gelu");  // Megatron's head knows no other
    model_.bias_gelu_fusion = false;
    expect_flag("tie_word_embeddings", true);
    expect_flag("is_decoder", false);
    expect_flag("add_cross_attention", false);
    expect_number("type_vocab_size", 2);
  }

  void read_mamba() {
    model_.family = ModelFamily::mamba;
    model_.num_layers = size("num_hidden_layers");
    model_.hidden_size = size("hidden_size");
    model_.mamba_num_heads = model_.num_attention_heads = size("num_heads");
    model_.mamba_head_dim = size("head_dim");
    model_.kv_channels = model_.mamba_head_dim;
    model_.mamba_state_dim = size("state_size");
    model_.max_position_embeddings = kMost;  // it knows no positions
    model_.attention_dropout = model_.hidden_dropout = 0;
    expect_text("hidden_act", "silu");
    read_mamba_layers();
  }

  // What Mamba-2 and its hybrids have in common.
  void read_mamba_layers() {
    model_.mamba_num_groups = size("n_groups");
    model_.position_embedding_type = "none";
    model_.normalization = "RMSNorm";
    model_.add_bias_linear = false;
    model_.norm_epsilon = real_or("layer_norm_epsilon", 1e-5);
    model_.untie_embeddings_and_output_weights = !object_.flag_or("tie_word_embeddings", false);
    expect_flag("use_bias", false);
    expect_flag("use_conv_bias", true);
    expect_number("conv_kernel", kMambaConv);
    expect_free_steps();
  }

  // Megatron's time steps, which are above 0, have no bounds.
  void expect_free_steps() const {
    constexpr double kAny = 1e9;
    if (!object_.has("time_step_limit")) return;
    simdjson::dom::array bounds;
    simdjson::dom::element least, most;
    double lower = 0, upper = 0;
    const bool two = !object_.member("time_step_limit").get(bounds) && bounds.size() == 2 &&
                     !bounds.at(0).get(least) && !least.get(lower) && !bounds.at(1).get(most);
    std::string_view number;
    const bool endless = two && (most.get(upper) == simdjson::SUCCESS
                                     ? upper >= kAny
                                     : !most["__float__"].get(number) && number == "Infinity");
    if (!endless || lower > 0)
      object_.refuse("\"time_step_limit\" bounds the time steps, which Megatron does not do");
  }

  void read_nemotron_h() {
    model_.family = ModelFamily::mamba;
    model_.hybrid_pattern = read_pattern();
    model_.num_layers = std::ssize(model_.hybrid_pattern);
    model_.hidden_size = size("hidden_size");
    model_.num_attention_heads = size("num_attention_heads");
    model_.num_query_groups = size("num_key_value_heads");
    model_.group_query_attention = model_.num_query_groups != model_.num_attention_heads;
    model_.kv_channels = size(object_.has("head_dim") ? "head_dim" : "attention_head_dim");
    model_.ffn_hidden_size = size("intermediate_size");
    model_.mamba_num_heads = size("mamba_num_heads");
    model_.mamba_head_dim = size("mamba_head_dim");
    model_.mamba_state_dim = size("ssm_state_size");
    model_.max_position_embeddings = size("max_position_embeddings");
    model_.attention_dropout = real_or("attention_dropout", 0);
    model_.hidden_dropout = real_or("hidden_dropout", 0);
    model_.squared_relu = true;
    model_.bias_gelu_fusion = false;
    expect_text("mlp_hidden_act", "relu2");
    expect_text("mamba_hidden_act", "silu");
    for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
      expect_flag(name, false);
    if (object_.has("sliding_window")) object_.refuse("\"sliding_window\" is not supported");
    expect_number("num_nextn_predict_layers", 0);
    read_mamba_layers();
  }

  // A list of names, or, of the 4th generation, their letters.
  std::string read_pattern() const {
    for (const char* list : {"layers_block_type", "layer_types"}) {
      simdjson::dom::array types;
      if (!object_.has(list)) continue;
      if (object_.member(list).get(types)) object_.refuse(json_quoted(list), ": expected a list");
      std::string pattern;
      for (const simdjson::dom::element entry : types) {
        std::string_view kind;
        if (entry.get(kind)) object_.refuse(json_quoted(list), ": expected texts");
        if (kind == "linear_attention" || kind == "mamba")
          pattern += 'M';
        else if (kind == "full_attention" || kind == "attention")
          pattern += '*';
        else if (kind == "mlp")
          pattern += '-';
        else
          object_.refuse(json_quoted(list), " has ", json_quoted(kind), ", which is not supported");
      }
      return pattern;
    }
    return std::string(object_.text("hybrid_override_pattern"));
  }

  void read_t5() {
    model_.family = ModelFamily::t5;
    model_.encoder_num_layers = size("num_layers");
    model_.num_layers =
        object_.has("num_decoder_layers") ? size("num_decoder_layers") : model_.encoder_num_layers;
    model_.hidden_size = size("d_model");
    model_.num_attention_heads = size("num_heads");
    model_.kv_channels = size("d_kv");
    model_.ffn_hidden_size = size("d_ff");
    model_.max_position_embeddings = object_.has("n_positions") ? size("n_positions") : kMost;
    model_.position_embedding_type = "relative";
    if (object_.has("relative_attention_num_buckets"))
      model_.relative_attention_num_buckets = size("relative_attention_num_buckets");
    if (object_.has("relative_attention_max_distance"))
      model_.relative_attention_max_distance = size("relative_attention_max_distance");
    model_.normalization = "RMSNorm";
    model_.add_bias_linear = false;
    model_.norm_epsilon = real_or("layer_norm_epsilon", 1e-6);
    model_.attention_dropout = model_.hidden_dropout = real_or("dropout_rate", 0.1);
    expect_flag("is_encoder_decoder", true);
    read_t5_mlp();
    const bool tied = object_.flag_or("tie_word_embeddings", true);
    model_.untie_embeddings_and_output_weights = !tied;
    model_.scale_decoder_outputs = object_.flag_or("scale_decoder_outputs", tied);
    check_square_root("d_kv", *model_.kv_channels, "scores of attention");
    if (model_.scale_decoder_outputs)
      check_square_root("d_model", model_.hidden_size, "the decoder's output");
  }

  void read_t5_mlp() {
    const std::string_view kind = object_.text_or("feed_forward_proj", "relu");
    model_.relu = kind == "relu";
    model_.gated_gelu = kind == "gated-gelu";
    model_.swiglu = kind == "gated-silu";
    model_.bias_gelu_fusion = false;
    if (!model_.relu && !model_.gated_gelu && !model_.swiglu)
      expect_text("feed_forward_proj", "gelu");
  }

  // Megatron and T5 differ in whether they divide by a square root, for which weights make up.
  void check_square_root(const char* name, std::int64_t value, const char* what) const {
    if (!is_power_of_four(value))
      object_.refuse(json_quoted(name), " is ", value, ", and ", what,
                     " differ between T5 and Megatron by its square root, which is no power of "
                     "two: weights would be rounded");
  }

  void expect_number(const char* name, std::int64_t expected) const {
    if (object_.has(name) && size(name) != expected)
      object_.refuse(json_quoted(name), " is ", size(name), ", expected ", expected);
  }

  void read_rope() {
    const char* const name = object_.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    double theta = real_or("rope_theta", 10000);
    model_.rotary_percent = real_or("partial_rotary_factor", type_ == "nemotron" ? 0.5 : 1);
    if (object_.has(name)) {
      const JsonObject rope = object_.object(name);
      if (rope.has("rope_theta")) theta = rope.real("rope_theta");
      if (rope.has("partial_rotary_factor"))
        model_.rotary_percent = rope.real("partial_rotary_factor");
      read_scaling(rope);
    }
    if (!(theta >= 1 && theta < 0x1p62) || theta != std::floor(theta))
      object_.refuse("\"rope_theta\" is ", theta, ", expected a whole number");
    model_.rotary_base = static_cast<std::int64_t>(theta);
  }

  void read_scaling(const JsonObject& rope) {
    static constexpr std::string_view kKnown[] = {
        "rope_type",        "type",
        "rope_theta",       "partial_rotary_factor",
        "factor",           "low_freq_factor",
        "high_freq_factor", "original_max_position_embeddings"};
    for (const std::string_view name : rope.names())
      if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
        rope.refuse(json_quoted(name), " is not supported");
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
      rope.refuse("rope_type ", json_quoted(kind), ": expected default, linear or llama3");
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

  const JsonObject& object_;
  std::string_view type_;
  ModelConfig model_;
};

}  // namespace

static DType dtype_of(const JsonObject& object) {
  const char* const name = object.has("dtype") ? "dtype" : "torch_dtype";
  const std::string_view text = object.text_or(name, "float32");
  for (const DType known : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (text == name_of(known)) return known;
  object.refuse(json_quoted(name), " is ", json_quoted(text), ", expected a floating-point type");
}

constexpr std::string_view kPythonNumbers[] = {"-Infinity", "Infinity", "NaN"};

static std::string as_object(std::string_view number) {
  return concat("{\"__float__\":\"", number, "\"}");
}

std::string without_python_numbers(const std::string& json) {
  std::string text;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view rest = std::string_view(json).substr(at);
    const auto* const number =
        std::ranges::find_if(kPythonNumbers, [&](auto n) { return rest.starts_with(n); });
    if (!quoted && number != std::end(kPythonNumbers)) {
      text += as_object(*number);
      at += number->size();
      continue;
    }
    const std::size_t taken = quoted && rest[0] == '\\' ? std::min<std::size_t>(2, rest.size()) : 1;
    quoted = quoted != (rest[0] == '"');
    text += rest.substr(0, taken);
    at += taken;
  }
  return text;
}

std::string with_python_numbers(std::string json) {
  for (const std::string_view number : kPythonNumbers) {
    const std::string object = as_object(number);
    for (std::size_t at = 0; (at = json.find(object, at)) != std::string::npos;)
      json.replace(at, object.size(), number);
  }
  return json;
}

std::vector<std::int32_t> eos_token_ids(const std::string& text, const std::string& path) {
  const std::string json = without_python_numbers(text);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(json).get(root))
    fail(Exit::bad_data, path, ": ", json_place(json), simdjson::error_message(error));
  const JsonObject object(root, path);
  std::vector<std::int32_t> ids;
  if (!object.has("eos_token_id")) return ids;
  const auto add = [&](simdjson::dom::element element) {
    std::int64_t id = -1;
    if (!element.get(id) && 0 <= id && id <= kMost) ids.push_back(static_cast<std::int32_t>(id));
  };
  const simdjson::dom::element ends = object.member("eos_token_id");
  if (simdjson::dom::array list; !ends.get(list))
    for (const simdjson::dom::element one : list) add(one);
  else
    add(ends);
  return ids;
}

HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& path) {
  Allowance(text.size()).take_json(text, path);
  const std::string json = without_python_numbers(text);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(json).get(root))
    fail(Exit::bad_data, path, ": ", json_place(json), simdjson::error_message(error));
  const JsonObject object(root, path);
  const ModelConfig model = ConfigReader(object).read();
  const bool is_t5 = model.family == ModelFamily::t5;
  return {.model = model,
          .dtype = dtype_of(object),
          .output_if_stored = is_t5 && object.has("scale_decoder_outputs")};
}

}  // namespace mt
