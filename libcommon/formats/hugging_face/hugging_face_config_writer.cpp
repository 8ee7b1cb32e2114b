#include <algorithm>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "formats/hugging_face/dense_families.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/names/hugging_face.h"
#include "nn/mlp.h"

namespace mt {

namespace {

struct Kind {
  const char *type, *architecture;
};

// What its class is called with the head that it has, "LlamaForCausalLM" without a task's.
std::string architecture_of(const Kind& kind, const ModelConfig& c) {
  const std::string name = kind.architecture;
  if (!c.has_task_head()) return name;
  const std::size_t end = std::min(name.find("For"), name.find("LMHead"));
  return name.substr(0, end) +
         (c.task_head == kMultichoiceHead ? "ForMultipleChoice" : "ForSequenceClassification");
}

// A label without a name of its own is called as transformers calls it.
void write_labels(JsonWriter& json, const ModelConfig& c) {
  std::vector<std::string> names = c.labels();
  for (std::size_t i = 0; c.label_names.empty() && i < names.size(); ++i)
    names[i] = concat("LABEL_", i);
  json.key("id2label").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.member(std::to_string(i), names[i]);
  json.end_object().key("label2id").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i)
    json.member(names[i], static_cast<std::int64_t>(i));
  json.end_object();
}

[[noreturn]] void refuse(const char* what) {
  fail(Exit::bad_config, what, ": no model of transformers has that");
}

void check_gpt2(const ModelConfig& c) {
  if (c.swiglu || c.squared_relu) refuse("learned positions without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse("learned positions with norms that are not LayerNorm");
  if (!c.add_bias_linear) refuse("learned positions without biases");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse("learned positions with query groups or --kv-channels");
  if (!c.window_size.empty()) refuse("learned positions with --window-size");
}

void check_bert(const ModelConfig& c) {
  if (!c.bert_binary_head) refuse("BERT without a binary head and types of tokens");
  if (c.activation() == Activation::gelu_tanh)
    refuse(
        "BERT without --no-bias-gelu-fusion, which has one GeLU in its layers and another in its "
        "head");
  if (c.activation() != Activation::gelu_erf) refuse("BERT without GeLU");
  if (c.normalization != "LayerNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse("BERT with norms that are not LayerNorm");
  if (c.position_embedding_type != "learned_absolute") refuse("BERT without learned positions");
  if (!c.add_bias_linear) refuse("BERT without biases");
  if (c.kv_heads() != c.num_attention_heads ||
      c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse("BERT with query groups or --kv-channels");
}

void check_t5(const ModelConfig& c) {
  if (c.position_embedding_type != "relative")
    refuse("T5 without --position-embedding-type relative");
  if (c.normalization != "RMSNorm" || c.apply_layernorm_1p || c.qk_layernorm)
    refuse("T5 with norms that are not plain RMSNorm");
  if (c.has_qkv_bias()) refuse("T5 with biases");
  if (c.squared_relu) refuse("T5 with --squared-relu");
  if (!is_power_of_four(c.head_dim()) ||
      (c.scale_decoder_outputs && !is_power_of_four(c.hidden_size)))
    refuse("T5 of sizes whose square roots are no powers of two, and weights not rounded");
}

// Bamba's layers are a mixer or attention, and behind it an MLP.
void check_bamba(const ModelConfig& c) {
  const std::string& pattern = c.hybrid_pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if ((pattern[i] == '-') != (i % 2 == 1) || pattern.size() % 2 == 1)
      refuse("a hybrid of Mamba layers with --swiglu where MLPs are not every second layer");
  if (c.position_embedding_type != "rope" || c.rotary_interleaved)
    refuse("a hybrid of Mamba layers with --swiglu without plain rotary positions");
  if (c.has_qkv_bias() || c.qk_layernorm || !c.window_size.empty())
    refuse("a hybrid of Mamba layers with biases, --qk-layernorm or --window-size");
  if (c.mamba_inner() % c.hidden_size != 0)
    refuse("a hybrid of Mamba layers with channels that are no multiple of --hidden-size");
  if (c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse("a hybrid of Mamba layers with --swiglu and --kv-channels");
}

void check_mamba(const ModelConfig& c) {
  if (c.normalization != "RMSNorm" || c.apply_layernorm_1p)
    refuse("Mamba layers with norms that are not plain RMSNorm");
  if (c.norm_epsilon != 1e-5)
    refuse("Mamba layers with a --norm-epsilon that is not 1e-5, which gated norms have");
  if (c.swiglu && c.is_hybrid()) return check_bamba(c);
  if (c.position_embedding_type != "none")
    refuse("Mamba layers without --position-embedding-type none");
  if (!c.is_hybrid()) {
    if (c.mamba_inner() % c.hidden_size != 0)
      refuse("Mamba-2 with channels that are no multiple of --hidden-size");
    return;
  }
  if (!c.squared_relu) refuse("a hybrid of Mamba layers without --squared-relu");
  if (c.has_qkv_bias() || c.qk_layernorm || !c.window_size.empty())
    refuse("a hybrid of Mamba layers with biases, --qk-layernorm or --window-size");
}

// Experts behind dense layers, chosen by sigmoids with biases.
void check_glm(const ModelConfig& c) {
  if (!c.moe_router_enable_expert_bias)
    refuse("--moe-router-score-function sigmoid without --moe-router-enable-expert-bias");
  if (c.moe_router_topk == 1) refuse("--moe-router-topk 1 with sigmoids");
  if (c.moe_router_num_groups > 0 && c.moe_router_topk != 2 * c.moe_router_group_topk)
    refuse("--moe-router-group-topk other than half of --moe-router-topk");
  const std::int64_t shared = c.moe_shared_expert_intermediate_size;
  if (shared == 0 || shared % c.expert_ffn() != 0 || c.moe_shared_expert_gate)
    refuse("sigmoids without shared experts, or with a gate or another width");
  if (!c.window_size.empty()) refuse("--num-experts with sigmoids and --window-size");
  if (c.moe_expert_capacity_factor != 0) refuse("--moe-expert-capacity-factor");
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  if (!std::ranges::is_sorted(experts)) refuse("--moe-layer-freq with dense layers behind others");
}
constexpr Kind kDense[] = {{"gemma", "GemmaForCausalLM"},        {"gemma2", "Gemma2ForCausalLM"},
                           {"gemma3_text", "Gemma3ForCausalLM"}, {"olmo2", "Olmo2ForCausalLM"},
                           {"phi3", "Phi3ForCausalLM"},          {"granite", "GraniteForCausalLM"},
                           {"smollm3", "SmolLM3ForCausalLM"},    {"cohere", "CohereForCausalLM"},
                           {"cohere2", "Cohere2ForCausalLM"}};

Kind kind_of(const ModelConfig& c) {
  if (c.family == ModelFamily::t5) {
    check_t5(c);
    return {"t5", "T5ForConditionalGeneration"};
  }
  if (c.family == ModelFamily::bert) {
    check_bert(c);
    return {"megatron-bert", "MegatronBertForPreTraining"};
  }
  if (c.family == ModelFamily::mamba) {
    check_mamba(c);
    if (c.is_hybrid() && c.swiglu) return {"bamba", "BambaForCausalLM"};
    if (c.is_hybrid()) return {"nemotron_h", "NemotronHForCausalLM"};
    return {"mamba2", "Mamba2ForCausalLM"};
  }
  const std::string_view type = hugging_face_type(c);
  for (const Kind& kind : kDense)
    if (kind.type == type) return kind;
  if (const char* const flag = c.later_setting()) refuse(flag);
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
  if (c.family == ModelFamily::mixtral && c.moe_router_score_function == "sigmoid") {
    check_glm(c);
    return {"glm4_moe", "Glm4MoeForCausalLM"};
  }
  if (c.rotary_percent != 1) refuse("--rotary-percent with --swiglu");
  if (c.add_bias_linear && (windows || c.qk_layernorm))
    refuse("biases with --window-size or --qk-layernorm");
  if (c.qk_layernorm && qkv_only) refuse("--qk-layernorm with --add-qkv-bias");
  if (c.family == ModelFamily::mixtral) {
    if (c.moe_expert_capacity_factor != 0) refuse("--moe-expert-capacity-factor");
    if (c.moe_router_num_groups > 0 || c.moe_router_topk_scaling_factor != 0)
      refuse("softmaxes with groups or --moe-router-topk-scaling-factor");
    const bool shared = c.moe_shared_expert_intermediate_size > 0;
    if (!c.window_attn_skip_freq.empty()) refuse("--num-experts with --window-attn-skip-freq");
    if (shared && c.moe_shared_expert_gate && !c.qk_layernorm && !windows)
      return {"qwen2_moe", "Qwen2MoeForCausalLM"};
    if (shared) refuse("shared experts without a gate, or with --qk-layernorm or --window-size");
    if (qkv_only) refuse("--num-experts with --add-qkv-bias");
    if (c.qk_layernorm && windows)
      refuse("--num-experts with both --qk-layernorm and --window-size");
    if (c.qk_layernorm) return {"qwen3_moe", "Qwen3MoeForCausalLM"};
    if (c.moe_router_pre_softmax) refuse("--moe-router-pre-softmax without --qk-layernorm");
    if (c.has_dense_layers(c.num_layers)) refuse("--moe-layer-freq without --qk-layernorm");
    return {"mixtral", "MixtralForCausalLM"};
  }
  if (c.qk_layernorm) return {"qwen3", "Qwen3ForCausalLM"};
  if (qkv_only) return {"qwen2", "Qwen2ForCausalLM"};
  if (!windows) return {"llama", "LlamaForCausalLM"};
  if (!c.window_attn_skip_freq.empty()) refuse("--window-attn-skip-freq");
  return {"mistral", "MistralForCausalLM"};
}

void write_gpt2(JsonWriter& json, const ModelConfig& c) {
  json.member("n_layer", c.num_layers).member("n_embd", c.hidden_size);
  json.member("n_head", c.num_attention_heads).member("n_inner", c.ffn());
  json.member("n_positions", c.max_position_embeddings);
  json.member("layer_norm_epsilon", c.norm_epsilon);
  json.member("attn_pdrop", c.attention_dropout).member("resid_pdrop", c.hidden_dropout);
  json.member("embd_pdrop", c.hidden_dropout);
  json.member("activation_function", c.activation() == Activation::gelu_tanh ? "gelu_new" : "gelu");
}

// How a model's positions are said where the config.json that it was once read from said it in
// words that no setting of ours stands for.
struct KeptPositions {
  std::string scaling;
  std::int64_t positions = 0;
};

bool are_same_positions(const ModelConfig& a, const ModelConfig& b) {
  return a.max_position_embeddings == b.max_position_embeddings && a.has_rope() && b.has_rope() &&
         a.rotary_base == b.rotary_base && a.rotary_percent == b.rotary_percent &&
         a.rotary_interpolation == b.rotary_interpolation &&
         a.use_rope_scaling == b.use_rope_scaling &&
         a.rope_scaling_factor == b.rope_scaling_factor &&
         a.rope_frequency_factors == b.rope_frequency_factors &&
         a.rope_attention_factor == b.rope_attention_factor;
}

std::optional<KeptPositions> positions_of(const JsonObject& before, const std::string& original,
                                          const ModelConfig& c) {
  const char* const name = before.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!c.has_rope() || !before.has(name)) return {};
  const JsonObject rope = before.object(name);
  const std::string_view kind = rope.text_or("rope_type", rope.text_or("type", "default"));
  const ModelConfig stored = parse_hugging_face_config(original, "config.json").model;
  const bool ours = kind == "default" || kind == "linear" || stored.use_rope_scaling;
  if (ours || !are_same_positions(stored, c)) return {};
  const bool given = before.has("max_position_embeddings");
  return KeptPositions{
      simdjson::minify(before.member(name)),
      given ? before.number("max_position_embeddings", std::numeric_limits<int>::max())
            : c.max_position_embeddings};
}

// A factor for each pair, which transformers calls longrope, of texts of any length.
void write_frequency_factors(JsonWriter& json, const ModelConfig& c) {
  if (c.use_rope_scaling || c.rotary_interpolation)
    refuse("--rope-frequency-factors with another scaling");
  json.begin_object().member("rope_type", "longrope").member("factor", 1.0);
  json.member("attention_factor", c.rope_attention_factor);
  json.member("original_max_position_embeddings", c.max_position_embeddings);
  std::string factors = c.rope_frequency_factors;
  if (factors.empty())
    for (std::int64_t pair = 0; pair < c.rotary_dim() / 2; ++pair) factors += pair ? ",1.0" : "1.0";
  for (const char* name : {"short_factor", "long_factor"}) json.key(name).raw('[' + factors + ']');
  json.end_object();
}

void write_rope(JsonWriter& json, const ModelConfig& c, const std::optional<KeptPositions>& kept) {
  json.member("rope_theta", c.rotary_base);
  if (c.rotary_percent != 1) json.member("partial_rotary_factor", c.rotary_percent);
  json.key("rope_scaling");
  if (c.use_rope_scaling && c.rotary_interpolation)
    refuse("--use-rope-scaling with --rotary-seq-len-interpolation-factor");
  if (kept)
    json.raw(kept->scaling);
  else if (!c.rope_frequency_factors.empty() || c.rope_attention_factor != 1)
    write_frequency_factors(json, c);
  else if (c.use_rope_scaling)
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

std::int64_t window_of(const ModelConfig& c) {
  ModelConfig everywhere = c;
  everywhere.window_attn_skip_freq.clear();
  return everywhere.window(0) + 1;
}

void write_windows(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  const bool windows = !c.window_size.empty() && window_of(c) > 0;
  json.key("sliding_window");
  if (windows)
    json.value(window_of(c));
  else
    json.null();
  if (type == "mistral" || type == "mixtral") return;
  json.member("use_sliding_window", windows).key("layer_types").begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(c.window(layer) < 0 ? "full_attention" : "sliding_attention");
  json.end_array();
}

bool is_any_dense(std::string_view type) {
  return std::ranges::any_of(kDense, [&](const Kind& kind) { return kind.type == type; });
}
bool is_qwen_moe(std::string_view type) { return type == "qwen2_moe" || type == "qwen3_moe"; }

void write_llama(JsonWriter& json, const ModelConfig& c, std::string_view type,
                 const std::optional<KeptPositions>& kept) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads()).member("head_dim", c.head_dim());
  if (!is_qwen_moe(type))
    json.member("intermediate_size", type == "mixtral" ? c.expert_ffn() : c.ffn());
  json.member("max_position_embeddings", kept ? kept->positions : c.max_position_embeddings);
  json.member(type == "nemotron" ? "norm_eps"
              : is_cohere(type)  ? "layer_norm_eps"
                                 : "rms_norm_eps",
              c.norm_epsilon);
  const bool later_gemma = is_gemma(type) && type != "gemma";
  json.member(later_gemma ? "hidden_activation" : "hidden_act", type == "nemotron" ? "relu2"
                                                                : is_gemma(type)
                                                                    ? "gelu_pytorch_tanh"
                                                                    : "silu");
  json.member("attention_dropout", c.attention_dropout);
  if (type == "llama" || type == "nemotron" || type == "granite" || type == "smollm3")
    json.member("attention_bias", c.add_bias_linear).member("mlp_bias", c.add_bias_linear);
  else if (type == "qwen3" || type == "qwen3_moe" || (is_any_dense(type) && type != "phi3"))
    json.member("attention_bias", false);
  if (type == "glm4_moe") json.member("attention_bias", c.has_qkv_bias());
  write_rope(json, c, kept);
  if (is_any_dense(type)) return write_dense_family(json, c, type);
  if (type != "llama" && !is_qwen_moe(type) && type != "glm4_moe" && type != "nemotron")
    write_windows(json, c, type);
}

// transformers takes no integer here.
void write_fraction(JsonWriter& json, std::string_view name, double value) {
  const std::string text = JsonWriter().value(value).text();
  json.key(name).raw(text.find_first_of(".e") == text.npos ? text + ".0" : text);
}

void write_experts(JsonWriter& json, const ModelConfig& c) {
  json.member("num_local_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  write_fraction(json, "router_aux_loss_coef", c.moe_aux_loss_coeff);
}

void write_qwen_experts(JsonWriter& json, const ModelConfig& c) {
  json.member("intermediate_size", c.ffn());
  json.member("num_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("norm_topk_prob", !c.moe_router_pre_softmax).member("decoder_sparse_step", 1);
  json.key("mlp_only_layers").begin_array();
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  for (std::size_t layer = 0; layer < experts.size(); ++layer)
    if (!experts[layer]) json.value(layer);
  json.end_array();
  write_fraction(json, "router_aux_loss_coef", c.moe_aux_loss_coeff);
  if (!c.moe_shared_expert_gate) return;
  json.member("shared_expert_intermediate_size", c.moe_shared_expert_intermediate_size);
  json.member("qkv_bias", c.has_qkv_bias());
}

void write_glm_experts(JsonWriter& json, const ModelConfig& c) {
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  json.member("n_routed_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("n_shared_experts", c.moe_shared_expert_intermediate_size / c.expert_ffn());
  json.member("first_k_dense_replace", std::ranges::count(experts, false));
  const double factor = c.moe_router_topk_scaling_factor;
  write_fraction(json, "routed_scaling_factor", factor == 0 ? 1 : factor);
  const bool groups = c.moe_router_num_groups > 0;
  json.member("n_group", groups ? c.moe_router_num_groups : 1);
  json.member("topk_group", groups ? c.moe_router_group_topk : 1);
  json.member("norm_topk_prob", true).member("use_qk_norm", c.qk_layernorm);
  if (c.rotary_percent == 1) write_fraction(json, "partial_rotary_factor", 1);
  json.member("num_nextn_predict_layers", 0);
}

void write_bert(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_attention_heads", c.num_attention_heads).member("intermediate_size", c.ffn());
  json.member("max_position_embeddings", c.max_position_embeddings).member("type_vocab_size", 2);
  json.member("layer_norm_eps", c.norm_epsilon);
  json.member("attention_probs_dropout_prob", c.attention_dropout);
  json.member("hidden_dropout_prob", c.hidden_dropout);
  json.member("hidden_act", "gelu");
}

void write_mamba_layers(JsonWriter& json, const ModelConfig& c) {
  json.member("n_groups", c.mamba_num_groups).member("conv_kernel", kMambaConv);
  json.member("layer_norm_epsilon", c.norm_epsilon);
  json.member("use_bias", false).member("use_conv_bias", true);
}

void write_mamba(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("num_heads", c.mamba_num_heads).member("head_dim", c.mamba_head_dim);
  json.member("state_size", c.mamba_state_dim).member("hidden_act", "silu");
  json.member("expand", c.mamba_inner() / c.hidden_size);
  write_mamba_layers(json, c);
}

void write_nemotron_h(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers).member("hidden_size", c.hidden_size);
  json.member("hybrid_override_pattern", c.hybrid_pattern);
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads()).member("head_dim", c.head_dim());
  json.member("intermediate_size", c.ffn()).member("mlp_hidden_act", "relu2");
  json.member("max_position_embeddings", c.max_position_embeddings);
  json.member("mamba_num_heads", c.mamba_num_heads).member("mamba_head_dim", c.mamba_head_dim);
  json.member("ssm_state_size", c.mamba_state_dim).member("mamba_hidden_act", "silu");
  json.member("attention_dropout", c.attention_dropout).member("hidden_dropout", c.hidden_dropout);
  for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
    json.member(name, false);
  write_mamba_layers(json, c);
}

void write_bamba(JsonWriter& json, const ModelConfig& c) {
  json.member("num_hidden_layers", c.num_layers / 2).member("hidden_size", c.hidden_size);
  json.key("attn_layer_indices").begin_array();
  for (std::int64_t i = 0; i < c.num_layers; i += 2)
    if (c.hybrid_pattern[static_cast<std::size_t>(i)] == '*') json.value(i / 2);
  json.end_array();
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads());
  json.member("intermediate_size", c.ffn()).member("hidden_act", "silu");
  json.member("max_position_embeddings", c.max_position_embeddings);
  json.member("mamba_n_heads", c.mamba_num_heads).member("mamba_d_head", c.mamba_head_dim);
  json.member("mamba_d_state", c.mamba_state_dim).member("mamba_n_groups", c.mamba_num_groups);
  json.member("mamba_expand", c.mamba_inner() / c.hidden_size).member("mamba_d_conv", kMambaConv);
  json.member("mamba_conv_bias", true).member("rms_norm_eps", c.norm_epsilon);
  json.member("attention_dropout", c.attention_dropout);
  for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
    json.member(name, false);
  write_rope(json, c, {});
}

void write_t5(JsonWriter& json, const ModelConfig& c) {
  const bool tied = !c.untie_embeddings_and_output_weights;
  json.member("num_layers", c.encoder_num_layers).member("num_decoder_layers", c.num_layers);
  json.member("d_model", c.hidden_size).member("num_heads", c.num_attention_heads);
  json.member("d_kv", c.head_dim()).member("d_ff", c.ffn());
  if (c.max_position_embeddings != std::numeric_limits<int>::max())
    json.member("n_positions", c.max_position_embeddings);
  json.member("relative_attention_num_buckets", c.relative_attention_num_buckets);
  json.member("relative_attention_max_distance", c.relative_attention_max_distance);
  json.member("feed_forward_proj", c.relu         ? "relu"
                                   : c.gated_gelu ? "gated-gelu"
                                   : c.swiglu     ? "gated-silu"
                                                  : "gelu");
  json.member("layer_norm_epsilon", c.norm_epsilon).member("dropout_rate", c.hidden_dropout);
  json.member("is_encoder_decoder", true);
  if (c.scale_decoder_outputs != tied)
    json.member("scale_decoder_outputs", c.scale_decoder_outputs);
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
                                               "num_local_experts",
                                               "num_experts",
                                               "moe_intermediate_size",
                                               "norm_topk_prob",
                                               "decoder_sparse_step",
                                               "mlp_only_layers",
                                               "shared_expert_intermediate_size",
                                               "n_routed_experts",
                                               "n_shared_experts",
                                               "first_k_dense_replace",
                                               "routed_scaling_factor",
                                               "n_group",
                                               "topk_group",
                                               "use_qk_norm",
                                               "num_nextn_predict_layers",
                                               "num_mtp_layers",
                                               "qkv_bias",
                                               "num_experts_per_tok",
                                               "router_aux_loss_coef",
                                               "type_vocab_size",
                                               "layer_norm_eps",
                                               "attention_probs_dropout_prob",
                                               "hidden_dropout_prob",
                                               "num_heads",
                                               "state_size",
                                               "n_groups",
                                               "expand",
                                               "conv_kernel",
                                               "use_bias",
                                               "use_conv_bias",
                                               "hybrid_override_pattern",
                                               "layers_block_type",
                                               "attention_head_dim",
                                               "mlp_hidden_act",
                                               "mamba_num_heads",
                                               "mamba_head_dim",
                                               "mamba_hidden_act",
                                               "mamba_proj_bias",
                                               "ssm_state_size",
                                               "attn_layer_indices",
                                               "mamba_n_heads",
                                               "mamba_d_head",
                                               "mamba_d_state",
                                               "mamba_n_groups",
                                               "mamba_expand",
                                               "mamba_d_conv",
                                               "mamba_conv_bias",
                                               "hidden_dropout",
                                               "num_layers",
                                               "num_decoder_layers",
                                               "d_model",
                                               "d_kv",
                                               "d_ff",
                                               "relative_attention_num_buckets",
                                               "relative_attention_max_distance",
                                               "feed_forward_proj",
                                               "is_gated_act",
                                               "dense_act_fn",
                                               "dropout_rate",
                                               "is_encoder_decoder",
                                               "scale_decoder_outputs",
                                               "max_window_layers",
                                               "hidden_activation",
                                               "query_pre_attn_scalar",
                                               "attn_logit_softcapping",
                                               "final_logit_softcapping",
                                               "rope_local_base_freq",
                                               "sliding_window_pattern",
                                               "_sliding_window_pattern",
                                               "use_bidirectional_attention",
                                               "logit_scale",
                                               "use_qk_norm",
                                               "embedding_multiplier",
                                               "residual_multiplier",
                                               "logits_scaling",
                                               "attention_multiplier",
                                               "no_rope_layers",
                                               "no_rope_layer_interval",
                                               "id2label",
                                               "label2id"};
  return std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs);
}

// These families have many settings, and most of what those may be has no model there.
void check_reads_back(const ModelConfig& model, const std::string& json, std::string_view type) {
  ModelConfig back = parse_hugging_face_config(json, "config.json").model;
  back.padded_vocab_size = model.padded_vocab_size;
  back.complete();
  if (const char* const setting = differing_setting(model, back))
    fail(Exit::bad_config, setting, ": no ", type, " of transformers has that");
}

// Llama's mathematics under Mistral's name, where that is what the model was called.
Kind kind_like(const ModelConfig& c, std::string_view original_type) {
  const Kind kind = kind_of(c);
  const bool renamed =
      std::string_view(kind.type) == "llama" && original_type == "mistral" && !c.add_bias_linear;
  return renamed ? Kind{"mistral", "MistralForCausalLM"} : kind;
}

}  // namespace

std::string hugging_face_config(const ModelConfig& model, DType dtype, const std::string& original,
                                const SpecialTokens* special) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string known = original.empty() ? "{}" : without_python_numbers(original);
  if (const auto error = parse_json(parser, known).get(root))
    fail(Exit::bad_data, "config.json: ", simdjson::error_message(error));
  const JsonObject before(root, "config.json");
  const std::string_view before_type = before.text_or("model_type", "");
  const Kind kind = kind_like(model, before_type);
  const std::string_view type = kind.type;
  JsonWriter json;
  json.begin_object()
      .key("architectures")
      .begin_array()
      .value(architecture_of(kind, model))
      .end_array();
  json.member("model_type", type);
  if (type == "gpt2")
    write_gpt2(json, model);
  else if (type == "megatron-bert")
    write_bert(json, model);
  else if (type == "mamba2")
    write_mamba(json, model);
  else if (type == "nemotron_h")
    write_nemotron_h(json, model);
  else if (type == "bamba")
    write_bamba(json, model);
  else if (type == "t5")
    write_t5(json, model);
  else
    write_llama(json, model, type,
                type == before_type ? positions_of(before, original, model) : std::nullopt);
  if (type == "mixtral") write_experts(json, model);
  if (is_qwen_moe(type)) write_qwen_experts(json, model);
  if (type == "glm4_moe") write_glm_experts(json, model);
  if (model.has_task_head() && model.task_head != kMultichoiceHead) write_labels(json, model);
  json.member("vocab_size", model.vocab_size);
  json.member("tie_word_embeddings", !model.untie_embeddings_and_output_weights);
  json.member("initializer_range", model.init_method_std);
  json.member("torch_dtype", name_of(dtype));
  if (type == before_type)
    for (const std::string_view name : before.names())
      if (!is_ours(name)) json.key(name).raw(simdjson::minify(before.member(name)));
  const auto names = before.names();
  const auto is_said = [&](std::string_view name) {
    return type == before_type && std::ranges::find(names, name) != names.end();
  };
  // What is not said has the default of the class, which is another tokenizer's.
  if (special != nullptr && !is_said("eos_token_id"))
    for (const auto& [name, id] : {std::pair("bos_token_id", special->bos),
                                   {"eos_token_id", special->eos},
                                   {"pad_token_id", special->pad}}) {
      if (is_said(name)) continue;
      json.key(name);
      if (id >= 0)
        json.value(id);
      else
        json.null();
    }
  // By its padding transformers finds a text's last token, which a score is of.
  if (special != nullptr && model.task_head == kScoreHead && is_said("eos_token_id") &&
      !is_said("pad_token_id"))
    json.member("pad_token_id", special->pad >= 0 ? special->pad : special->eos);
  // It goes before the scaling's own.
  if (type == "phi3" && !is_said("original_max_position_embeddings"))
    json.member("original_max_position_embeddings", model.max_position_embeddings);
  std::string text = json.end_object().text() + "\n";
  if (is_any_dense(type)) check_reads_back(model, text, type);
  return text;
}

}  // namespace mt
