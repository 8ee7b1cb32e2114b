#include <algorithm>
#include <set>

#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/latent_families.h"
#include "formats/hugging_face/typed_experts.h"
#include "kernels/activation.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

// Mixtral's words, which a GraniteMoe has, too.
static void read_mixtral(const ConfigJson& json, ModelConfig& c) {
  c.family = ModelFamily::mixtral;
  c.num_experts = json.size_or("num_local_experts", 8);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 2);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
}

void set_expert_layers(ModelConfig& c, const std::vector<bool>& experts) {
  if (std::ranges::count(experts, false) == 0) return;
  c.moe_layer_freq = "[";
  for (const bool has : experts) c.moe_layer_freq += has ? "1," : "0,";
  c.moe_layer_freq.back() = ']';
}

template <class HasExperts>
static void set_layers(ModelConfig& c, const HasExperts& has_experts) {
  std::vector<bool> experts;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) experts.push_back(has_experts(layer));
  set_expert_layers(c, experts);
}

void read_sparse_layers(const ConfigJson& json, ModelConfig& c) {
  constexpr const char* kDense = "first_k_dense_replace";
  std::vector<bool> usual(static_cast<std::size_t>(c.num_layers), true);
  if (!usual.empty()) usual[0] = false;
  const std::optional<std::vector<bool>> said = json.sparse_layers(c.num_layers);
  if (const std::int64_t dense = json.size_or(kDense, 1); !said && dense != 1)
    json.refuse(json_quoted(kDense), " is ", dense, ", expected 1, or \"mlp_layer_types\"");
  set_expert_layers(c, said.value_or(usual));
}

// Every decoder_sparse_step-th layer has experts, but for some that are named.
static void read_qwen_layers(const ConfigJson& json, ModelConfig& c) {
  const std::int64_t step = json.count_or("decoder_sparse_step", 1);
  std::set<std::int64_t> dense;
  simdjson::dom::array named;
  if (json.has("mlp_only_layers")) {
    if (json.member("mlp_only_layers").get(named))
      json.refuse("\"mlp_only_layers\": expected a list of layers");
    for (const simdjson::dom::element element : named) {
      std::int64_t layer = 0;
      if (element.get(layer)) json.refuse("\"mlp_only_layers\": expected a list of layers");
      dense.insert(layer);
    }
  }
  set_layers(c,
             [&](std::int64_t layer) { return (layer + 1) % step == 0 && !dense.contains(layer); });
}

static void read_qwen_experts(const ConfigJson& json, ModelConfig& c) {
  const bool second = json.is("qwen2_moe"), next = json.is("qwen3_next");
  c.family = ModelFamily::mixtral;
  c.num_experts = json.size_or(json.has("num_local_experts") ? "num_local_experts" : "num_experts",
                               next     ? 512
                               : second ? 60
                                        : 128);
  c.moe_router_topk = json.size_or("num_experts_per_tok", next ? 10 : second ? 4 : 8);
  c.moe_ffn_hidden_size = json.size_or("moe_intermediate_size", next ? 512 : second ? 1408 : 768);
  c.moe_router_pre_softmax = !json.flag_or("norm_topk_prob", next);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
  c.moe_shared_expert_gate = second || next;
  if (c.moe_shared_expert_gate)
    c.moe_shared_expert_intermediate_size =
        json.size_or("shared_expert_intermediate_size", next ? 512 : 5632);
  read_qwen_layers(json, c);
}

// Its layers may all have MLPs.
static void read_qwen_next_experts(const ConfigJson& json, ModelConfig& c) {
  const bool none = json.has("num_experts") && json.number("num_experts", kMostSize) == 0;
  if (!none) read_qwen_experts(json, c);
  if (!none && c.moe_layer_freq.find('1') != std::string::npos) return;
  c.family = ModelFamily::gpt;
  static_cast<ExpertConfig&>(c) = {};
}

// An MLP's width is an expert's.
static void read_olmoe(const ConfigJson& json, ModelConfig& c) {
  c.family = ModelFamily::mixtral;
  c.qk_layernorm_whole = true;
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "num_experts", 64);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  c.moe_router_pre_softmax = !json.flag_or("norm_topk_prob", false);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.01)};
  if (json.has("clip_qkv"))
    json.refuse("\"clip_qkv\": expected null: no bound is known of queries");
}

// Experts with biases and gates of their own, and a sink in each head; every other layer has a
// window.
static void read_gpt_oss(const ConfigJson& json, ModelConfig& c) {
  c.family = ModelFamily::mixtral;
  c.add_bias_linear = c.quick_geglu = true;
  c.softmax_type = "learnable";
  c.glu_linear_offset = 1;
  c.activation_func_clamp_value = json.positive_or("swiglu_limit", 7);
  if (json.real_or("swiglu_alpha", kQuickGelu) != kQuickGelu)
    json.refuse("\"swiglu_alpha\" is ", json.real("swiglu_alpha"), ", expected ", kQuickGelu);
  json.expect_flag("attention_bias", true);
  c.num_experts = json.size_or(json.has("num_experts") ? "num_experts" : "num_local_experts", 128);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 4);
  if (c.moe_router_topk == 1) json.refuse("\"num_experts_per_tok\" is 1, expected more");
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
  if (json.is_null("sliding_window")) return;
  std::vector<bool> sliding;
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) sliding.push_back(layer % 2 == 0);
  sliding = json.sliding_layers(c.num_layers).value_or(sliding);
  if (std::ranges::count(sliding, true) == 0) return;
  c.window_size = concat(json.count_or("sliding_window", 128) - 1, ",0");
  if (std::ranges::count(sliding, false) > 0)
    c.window_attn_skip_freq.assign(sliding.begin(), sliding.end());
}

static void read_glm_groups(const ConfigJson& json, ModelConfig& c) {
  const std::int64_t groups = json.size_or("n_group", 1), kept = json.count_or("topk_group", 1);
  if (groups == 1) return;
  if (c.moe_router_topk != 2 * kept)
    json.refuse("\"topk_group\" is ", kept, " for ", c.moe_router_topk,
                " experts, expected half as many: a group's score is the sum of its best two");
  c.moe_router_num_groups = groups;
  c.moe_router_group_topk = kept;
}

void read_sigmoid_router(const ConfigJson& json, ModelConfig& c) {
  c.moe_router_score_function = "sigmoid";
  c.moe_router_enable_expert_bias = true;
  c.moe_router_dtype = "fp32";  // whatever the rest is computed in
  if (const double factor = json.positive_or("routed_scaling_factor", 1); factor != 1)
    c.moe_router_topk_scaling_factor = factor;
  json.expect_flag("norm_topk_prob", true);
  if (c.moe_router_topk == 1)
    json.refuse("\"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
  read_glm_groups(json, c);
}

// Sigmoids with biases choose experts behind some dense layers.
static void read_glm_experts(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::mixtral;
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "n_routed_experts", 128);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  const std::int64_t width = json.size_or("moe_intermediate_size", 1408);
  c.moe_ffn_hidden_size = width;
  c.moe_shared_expert_intermediate_size = json.size_or("n_shared_experts", 1) * width;
  read_sigmoid_router(json, c);
  if (json.is("dots1") && !json.has("norm_topk_prob"))
    json.refuse("no \"norm_topk_prob\", which then is false, expected true");
  const std::int64_t dense = json.size_or("first_k_dense_replace", json.is("dots1") ? 0 : 1);
  set_layers(c, [&](std::int64_t layer) { return layer >= dense; });
  if (json.is("glm4_moe")) read_further_layers(json, config);
}

bool may_predict_further(std::string_view type) {
  return type == "glm4_moe" || (has_latent_experts(type) && type != "deepseek_v2");
}

void read_further_layers(const ConfigJson& json, HuggingFaceConfig& config) {
  config.may_predict_further = true;
  if (json.has("num_nextn_predict_layers"))
    config.further = json.number("num_nextn_predict_layers", kMostFurther);
}

void expect_whole_turns(const ConfigJson& json, const ModelConfig& c) {
  if (c.rotary_percent != 1)
    json.refuse("\"partial_rotary_factor\" is ", c.rotary_percent, ", expected 1");
}

void read_experts(const ConfigJson& json, HuggingFaceConfig& config) {
  if (json.is("mixtral") || json.is("granitemoe")) read_mixtral(json, config.model);
  if (json.is("qwen3_next"))
    read_qwen_next_experts(json, config.model);
  else if (is_qwen_moe(json.model_type()))
    read_qwen_experts(json, config.model);
  if (json.is("olmoe")) read_olmoe(json, config.model);
  if (json.is("gpt_oss")) read_gpt_oss(json, config.model);
  if (json.is("glm4_moe") || json.is("dots1")) read_glm_experts(json, config);
  if (has_latent_experts(json.model_type())) read_latent_experts(json, config);
  if (has_typed_experts(json.model_type())) read_typed_experts(json, config);
}

// --- Writing ------------------------------------------------------------------------------------

void check_sigmoid_router(const ModelConfig& c) {
  if (!c.moe_router_enable_expert_bias)
    refuse_setting("--moe-router-score-function sigmoid without --moe-router-enable-expert-bias");
  if (c.moe_router_topk == 1) refuse_setting("--moe-router-topk 1 with sigmoids");
  if (c.moe_router_num_groups > 0 && c.moe_router_topk != 2 * c.moe_router_group_topk)
    refuse_setting("--moe-router-group-topk other than half of --moe-router-topk");
  if (c.moe_expert_capacity_factor != 0) refuse_setting("--moe-expert-capacity-factor");
}

// Experts behind dense layers, chosen by sigmoids with biases.
void check_glm(const ModelConfig& c) {
  if (c.add_bias_linear) refuse_setting("experts with biases, but for gpt-oss");
  check_sigmoid_router(c);
  const std::int64_t shared = c.moe_shared_expert_intermediate_size;
  if (shared == 0 || shared % c.expert_ffn() != 0 || c.moe_shared_expert_gate)
    refuse_setting("sigmoids without shared experts, or with a gate or another width");
  if (!c.window_size.empty()) refuse_setting("--num-experts with sigmoids and --window-size");
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  if (!std::ranges::is_sorted(experts))
    refuse_setting("--moe-layer-freq with dense layers behind others");
}

std::string_view expert_type(const ModelConfig& c) {
  if (c.add_bias_linear) refuse_setting("experts with biases, but for gpt-oss");
  if (c.has_sinkhorn()) refuse_setting("--moe-router-load-balancing-type sinkhorn");
  const bool windows = !c.window_size.empty();
  if (c.moe_expert_capacity_factor != 0) refuse_setting("--moe-expert-capacity-factor");
  if (c.moe_router_num_groups > 0 || c.moe_router_topk_scaling_factor != 0)
    refuse_setting("softmaxes with groups or --moe-router-topk-scaling-factor");
  const bool shared = c.moe_shared_expert_intermediate_size > 0;
  if (!c.window_attn_skip_freq.empty())
    refuse_setting("--num-experts with --window-attn-skip-freq");
  if (shared && c.moe_shared_expert_gate && !c.qk_layernorm && !windows) return "qwen2_moe";
  if (shared)
    refuse_setting("shared experts without a gate, or with --qk-layernorm or --window-size");
  if (c.has_qkv_bias() && !c.add_bias_linear) refuse_setting("--num-experts with --add-qkv-bias");
  if (c.qk_layernorm && windows)
    refuse_setting("--num-experts with both --qk-layernorm and --window-size");
  if (c.qk_layernorm) return "qwen3_moe";
  if (c.moe_router_pre_softmax) refuse_setting("--moe-router-pre-softmax without --qk-layernorm");
  if (c.has_dense_layers(c.num_layers)) refuse_setting("--moe-layer-freq without --qk-layernorm");
  return "mixtral";
}

std::string fraction_of(double value) {
  const std::string text = JsonWriter().value(value).text();
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

static void write_fraction(JsonWriter& json, std::string_view name, double value) {
  json.key(name).raw(fraction_of(value));
}

static void write_mixtral(JsonWriter& json, const ModelConfig& c) {
  json.member("num_local_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  write_fraction(json, "router_aux_loss_coef", c.aux_loss_coeff("aux_loss"));
}

static void write_qwen_experts(JsonWriter& json, const ModelConfig& c) {
  json.member("intermediate_size", c.ffn());
  if (c.num_experts == 0) {
    json.member("num_experts", 0);
    return;
  }
  json.member("num_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("norm_topk_prob", !c.moe_router_pre_softmax).member("decoder_sparse_step", 1);
  json.key("mlp_only_layers").begin_array();
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  for (std::size_t layer = 0; layer < experts.size(); ++layer)
    if (!experts[layer]) json.value(layer);
  json.end_array();
  write_fraction(json, "router_aux_loss_coef", c.aux_loss_coeff("aux_loss"));
  if (!c.moe_shared_expert_gate) return;
  json.member("shared_expert_intermediate_size", c.moe_shared_expert_intermediate_size);
  if (!c.attention_output_gate) json.member("qkv_bias", c.has_qkv_bias());
}

static void write_olmoe(JsonWriter& json, const ModelConfig& c) {
  json.member("num_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("norm_topk_prob", !c.moe_router_pre_softmax);
  write_fraction(json, "router_aux_loss_coef", c.aux_loss_coeff("aux_loss"));
}

static void write_gpt_oss(JsonWriter& json, const ModelConfig& c) {
  json.member("num_local_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("swiglu_limit", c.activation_func_clamp_value).member("attention_bias", true);
  write_fraction(json, "router_aux_loss_coef", c.aux_loss_coeff("aux_loss"));
  write_needed_window(json, c);
  write_layer_types(json, c);
}

void write_sparse_layers(JsonWriter& json, const ModelConfig& c) {
  json.key("mlp_layer_types").begin_array();
  for (const bool has : c.experts_of_layers(c.num_layers)) json.value(has ? "sparse" : "dense");
  json.end_array();
}

void write_sigmoid_router(JsonWriter& json, const ModelConfig& c) {
  const double factor = c.moe_router_topk_scaling_factor;
  write_fraction(json, "routed_scaling_factor", factor == 0 ? 1 : factor);
  const bool groups = c.moe_router_num_groups > 0;
  json.member("n_group", groups ? c.moe_router_num_groups : 1);
  json.member("topk_group", groups ? c.moe_router_group_topk : 1);
  json.member("norm_topk_prob", true);
}

static void write_glm_experts(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  json.member("n_routed_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("n_shared_experts", c.moe_shared_expert_intermediate_size / c.expert_ffn());
  json.member("first_k_dense_replace", std::ranges::count(experts, false));
  write_sigmoid_router(json, c);
  if (type == "dots1") return;
  json.member("use_qk_norm", c.qk_layernorm);
  if (c.rotary_percent == 1) write_fraction(json, "partial_rotary_factor", 1);
  json.member("num_nextn_predict_layers", c.mtp_num_layers);
}

void write_experts(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  if (type == "mixtral" || type == "granitemoe") write_mixtral(json, c);
  if (is_qwen_moe(type)) write_qwen_experts(json, c);
  if (type == "olmoe") write_olmoe(json, c);
  if (type == "gpt_oss") write_gpt_oss(json, c);
  if (type == "glm4_moe" || type == "dots1") write_glm_experts(json, c, type);
  if (has_latent_experts(type)) write_latent_experts(json, c, type);
  if (has_typed_experts(type)) write_typed_experts(json, c, type);
}

}  // namespace mt
