#include "formats/hugging_face/latent_families.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/rope_scaling.h"

namespace mt {

constexpr std::string_view kSecond = "deepseek_v2", kThird = "deepseek_v3", kKimi = "kimi_k2",
                           kGlm = "glm4_moe_lite", kDense = "youtu";
constexpr double kEpsilonOfLatents = 1e-6;  // of norms, to transformers, whatever rms_norm_eps is

bool is_latent_family(std::string_view type) { return has_latent_experts(type) || type == kDense; }

bool has_latent_experts(std::string_view type) {
  return type == kSecond || type == kThird || type == kKimi || type == kGlm;
}

// --- Reading ------------------------------------------------------------------------------------

void read_latent_attention(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.multi_latent_attention = c.qk_layernorm = true;
  c.kv_channels.reset();
  if (c.group_query_attention)
    json.refuse("\"num_key_value_heads\" is ", c.num_query_groups, ", expected ",
                c.num_attention_heads, ", as many as heads");
  const bool glm = json.is(kGlm);
  if (json.has("q_lora_rank"))
    c.q_lora_rank = json.size("q_lora_rank");
  else if (!json.is_null("q_lora_rank"))
    c.q_lora_rank = glm ? 768 : 1536;
  c.kv_lora_rank = json.size_or("kv_lora_rank", 512);
  c.qk_head_dim = json.size_or("qk_nope_head_dim", glm ? 192 : 128);
  c.qk_pos_emb_head_dim = json.size_or("qk_rope_head_dim", 64);
  c.v_head_dim = json.size_or("v_head_dim", glm ? 256 : 128);
  json.expect_number("head_dim", c.qk_pos_emb_head_dim);  // what turns, to transformers
  json.expect_flag("mlp_bias", false);
  json.expect_flag("rope_interleave", true);
  if (glm) {
    c.latent_norm_epsilon = kEpsilonOfLatents;
  } else if (c.norm_epsilon != kEpsilonOfLatents) {
    config.notes.push_back(concat(json.where(), ": \"rms_norm_eps\" is ", c.norm_epsilon,
                                  ", and that of the norms of latents, which is 1e-06 in "
                                  "transformers, becomes the same"));
  }
  if (json.is(kKimi) || glm) c.hf_model_type = json.model_type();
  if (json.is(kDense)) c.init_method_std = 2 / std::sqrt(5 * static_cast<double>(c.hidden_size));
}

void read_latent_scaling(const JsonObject& rope, const ConfigJson& json, ModelConfig& c) {
  const auto real_or = [&](const char* name, double other) {
    return rope.has(name) ? rope.real(name) : other;
  };
  const auto turns_or = [&](const char* name, double usual) {
    const double turns = real_or(name, usual);
    return turns == 0 ? usual : turns;
  };
  c.rotary_scaling_factor = rope.real("factor");
  if (!(c.rotary_scaling_factor >= 1))
    rope.refuse("\"factor\" is ", c.rotary_scaling_factor, ", expected at least 1");
  c.original_max_position_embeddings = RopeScaling(rope, json, c).original_positions();
  c.yarn_beta_fast = turns_or("beta_fast", 32);
  c.yarn_beta_slow = turns_or("beta_slow", 1);
  const double mscale = real_or("mscale", 0), of_all = real_or("mscale_all_dim", 0);
  if (mscale == 0 && of_all != 0)
    rope.refuse("\"mscale_all_dim\" is ", of_all, " without \"mscale\"");
  c.mscale = of_all == 0 ? 1 : mscale;
  c.mscale_all_dim = of_all;
  if (rope.has("attention_factor") && rope.real("attention_factor") != c.latent_magnitude())
    rope.refuse("\"attention_factor\" is ", rope.real("attention_factor"), ", expected ",
                c.latent_magnitude());
  if (!rope.flag_or("truncate", true)) rope.refuse("\"truncate\" is false");
}

static void read_groups_by_best(const ConfigJson& json, ModelConfig& c) {
  if (json.text_or("topk_method", "greedy") == std::string_view("greedy")) return;
  json.expect_text("topk_method", "group_limited_greedy");
  c.moe_router_num_groups = json.size("n_group");
  c.moe_router_group_topk = json.count_or("topk_group", 0);
  c.moe_router_group_score = "max";
}

static void read_groups_by_sums(const ConfigJson& json, ModelConfig& c) {
  json.expect_text("topk_method", "noaux_tc");
  const bool glm = json.is(kGlm);
  const std::int64_t groups = json.size_or("n_group", glm ? 1 : 8),
                     kept = json.count_or("topk_group", glm ? 1 : 4);
  if (groups <= 1) return;
  if (c.moe_router_topk / std::max<std::int64_t>(kept, 1) != 2)
    json.refuse("\"topk_group\" is ", kept, " for ", c.moe_router_topk,
                " experts, expected half as many: a group's score is the sum of its best two");
  c.moe_router_num_groups = groups;
  c.moe_router_group_topk = kept;
}

static void read_first_layers(const ConfigJson& json, ModelConfig& c, std::int64_t usual) {
  const std::int64_t dense = json.size_or("first_k_dense_replace", usual);
  std::vector<bool> experts(static_cast<std::size_t>(c.num_layers), true);
  std::fill_n(experts.begin(), std::min(dense, c.num_layers), false);
  set_expert_layers(c, experts);
}

void read_latent_experts(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  const bool second = json.is(kSecond), glm = json.is(kGlm);
  c.family = ModelFamily::mixtral;
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "n_routed_experts",
                   second || glm ? 64 : 256);
  c.moe_router_topk =
      second ? json.size("num_experts_per_tok") : json.size_or("num_experts_per_tok", glm ? 4 : 8);
  c.moe_ffn_hidden_size = json.size_or("moe_intermediate_size", second ? 1407 : glm ? 1536 : 2048);
  c.moe_shared_expert_intermediate_size =
      json.size_or("n_shared_experts", second ? 2 : 1) * *c.moe_ffn_hidden_size;
  if (const double factor = json.positive_or("routed_scaling_factor", second ? 1
                                                                      : glm  ? 1.8
                                                                             : 2.5);
      factor != 1)
    c.moe_router_topk_scaling_factor = factor;
  c.moe_aux_loss_coeff = {json.real_or("aux_loss_alpha", 0)};
  if (json.flag_or("seq_aux", true)) c.moe_router_load_balancing_type = {"seq_aux_loss"};
  c.moe_router_dtype = "fp32";  // whatever the rest is computed in
  json.expect_text("scoring_func", second ? "softmax" : "sigmoid");
  json.expect_flag("norm_topk_prob", !second);
  json.expect_number("moe_layer_freq", 1);
  if (second) {
    c.moe_router_pre_softmax = true;
    read_groups_by_best(json, c);
  } else {
    c.moe_router_score_function = "sigmoid";
    c.moe_router_enable_expert_bias = true;
    read_groups_by_sums(json, c);
    read_further_layers(json, config);
  }
  if (!glm) return read_first_layers(json, c, second ? 0 : 3);
  expect_whole_turns(json, c);
  read_sparse_layers(json, c);
}

// --- Writing ------------------------------------------------------------------------------------

std::string_view latent_type(const ModelConfig& c) {
  if (!c.qk_layernorm) refuse_setting("--multi-latent-attention without --qk-layernorm");
  if (!c.window_size.empty()) refuse_setting("--multi-latent-attention with --window-size");
  if (!c.swiglu || c.normalization != "RMSNorm" || c.apply_layernorm_1p || c.add_bias_linear)
    refuse_setting("--multi-latent-attention without --swiglu and plain RMSNorm");
  if ((c.mscale_all_dim == 0 && c.mscale != 1) || (c.mscale == 0 && c.mscale_all_dim != 0))
    refuse_setting("--mscale without --mscale-all-dim, or the reverse");
  if (c.family != ModelFamily::mixtral) return kDense;
  if (c.moe_router_score_function == "sigmoid") {
    check_glm(c);
    return c.hf_model_type == kKimi ? kKimi : c.hf_model_type == kGlm ? kGlm : kThird;
  }
  const std::int64_t shared = c.moe_shared_expert_intermediate_size;
  if (!c.moe_router_pre_softmax)
    refuse_setting("--multi-latent-attention without --moe-router-pre-softmax or sigmoids");
  if (shared == 0 || shared % c.expert_ffn() != 0 || c.moe_shared_expert_gate)
    refuse_setting("latent attention without shared experts, or with a gate or another width");
  if (c.moe_router_num_groups > 0 && c.moe_router_group_score != "max")
    refuse_setting("softmaxes with groups without --moe-router-group-score max");
  if (c.moe_expert_capacity_factor != 0) refuse_setting("--moe-expert-capacity-factor");
  if (!std::ranges::is_sorted(c.experts_of_layers(c.num_layers)))
    refuse_setting("--moe-layer-freq with dense layers behind others");
  return kSecond;
}

void write_latent_attention(JsonWriter& json, const ModelConfig& c) {
  json.key("q_lora_rank");
  if (c.q_lora_rank)
    json.value(*c.q_lora_rank);
  else
    json.null();
  json.member("kv_lora_rank", c.kv_lora_rank).member("qk_nope_head_dim", c.qk_head_dim);
  json.member("qk_rope_head_dim", c.qk_pos_emb_head_dim).member("v_head_dim", c.v_head_dim);
  if (c.family != ModelFamily::mixtral) json.member("rope_interleave", true);
  write_base(json, "rope_theta", c.rotary_base);
  json.key("rope_scaling");
  if (c.rotary_scaling_factor == 1) return void(json.null());
  json.begin_object().member("type", "yarn").member("rope_type", "yarn");
  json.member("factor", c.rotary_scaling_factor);
  json.member("original_max_position_embeddings",
              c.original_max_position_embeddings.value_or(c.max_position_embeddings));
  json.member("beta_fast", c.yarn_beta_fast).member("beta_slow", c.yarn_beta_slow);
  if (c.mscale_all_dim != 0)
    json.member("mscale", c.mscale).member("mscale_all_dim", c.mscale_all_dim);
  json.end_object();
}

void write_latent_experts(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  const bool second = type == kSecond, groups = c.moe_router_num_groups > 0;
  const std::vector<bool> experts = c.experts_of_layers(c.num_layers);
  const double factor = c.moe_router_topk_scaling_factor;
  json.member("n_routed_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("n_shared_experts", c.moe_shared_expert_intermediate_size / c.expert_ffn());
  json.member("first_k_dense_replace", std::ranges::count(experts, false));
  json.key("routed_scaling_factor").raw(fraction_of(factor == 0 ? 1 : factor));
  json.member("n_group", groups ? c.moe_router_num_groups : 1);
  json.member("topk_group", groups ? c.moe_router_group_topk : 1);
  if (type == kGlm) write_sparse_layers(json, c);
  json.member("topk_method", !second ? "noaux_tc" : groups ? "group_limited_greedy" : "greedy");
  json.member("scoring_func", second ? "softmax" : "sigmoid").member("norm_topk_prob", !second);
  json.member("moe_layer_freq", 1);
  const bool by_sequence = c.balances_by("seq_aux_loss");
  json.member("aux_loss_alpha", c.aux_loss_coeff(by_sequence ? "seq_aux_loss" : "aux_loss"));
  json.member("seq_aux", by_sequence);
  if (!second)
    json.member("rope_interleave", true).member("num_nextn_predict_layers", c.mtp_num_layers);
}

}  // namespace mt
