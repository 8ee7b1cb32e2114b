#include "formats/hugging_face/typed_experts.h"

#include <algorithm>

#include "formats/hugging_face/config_families.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

// As a GraniteMoe's, with a shared expert beside them where it has a width.
static void read_granite_shared(const ConfigJson& json, ModelConfig& c) {
  c.num_experts = json.size_or("num_local_experts", 8);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 2);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
  c.moe_shared_expert_intermediate_size = json.size_or("shared_intermediate_size", 0);
}

static void read_flex_olmo(const ConfigJson& json, ModelConfig& c) {
  c.qk_layernorm_whole = c.post_layernorm = true;
  c.pre_layernorm = false;
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "num_experts", 7);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 5);
  c.moe_router_pre_softmax = !json.flag_or("norm_topk_prob", false);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.01)};
}

// Sigmoids of what is computed as all else choose, with biases; whole queries and keys have norms.
// Its makers' words that transformers passes over are those of the one model that it has.
static void read_minimax(const ConfigJson& json, ModelConfig& c) {
  c.qk_layernorm_whole = true;
  c.num_experts = json.size_or(json.has("num_experts") ? "num_experts" : "num_local_experts", 256);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
  c.moe_router_score_function = "sigmoid";
  c.moe_router_enable_expert_bias = true;
  if (c.moe_router_topk == 1)
    json.refuse("\"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
  json.expect_flag("use_qk_norm", true);
  json.expect_text("qk_norm_type", "per_layer");
  json.expect_flag("use_routing_bias", true);
  json.expect_text("scoring_func", "sigmoid");
  json.expect_number("shared_intermediate_size", 0);
  if (!json.has("attn_type_list")) return;
  simdjson::dom::array types;
  if (json.member("attn_type_list").get(types))
    json.refuse("\"attn_type_list\": expected a number for each layer");
  for (const simdjson::dom::element type : types)
    if (std::int64_t kind = 0; type.get(kind) || kind != 1)
      json.refuse("\"attn_type_list\": expected 1, attention by softmax, for each layer");
}

struct TypedExperts {
  std::string_view type;
  void (*read)(const ConfigJson&, ModelConfig&);
  bool width_is_an_experts;
};
static constexpr TypedExperts kTyped[] = {{"granitemoeshared", read_granite_shared, true},
                                          {"flex_olmo", read_flex_olmo, true},
                                          {"minimax_m2", read_minimax, true}};

static const TypedExperts* find_typed(std::string_view type) {
  const auto* const found = std::ranges::find(kTyped, type, &TypedExperts::type);
  return found == std::end(kTyped) ? nullptr : found;
}

bool has_typed_experts(std::string_view type) { return find_typed(type) != nullptr; }

bool is_width_of_typed_experts(std::string_view type) {
  const TypedExperts* const found = find_typed(type);
  return found != nullptr && found->width_is_an_experts;
}

void read_typed_experts(const ConfigJson& json, ModelConfig& c) {
  c.family = ModelFamily::mixtral;
  find_typed(json.model_type())->read(json, c);
}

// --- Writing ------------------------------------------------------------------------------------

void write_typed_experts(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  json.member(type == "flex_olmo" ? "num_experts" : "num_local_experts", c.num_experts);
  json.member("num_experts_per_tok", c.moe_router_topk);
  json.key("router_aux_loss_coef").raw(fraction_of(c.aux_loss_coeff("aux_loss")));
  if (type == "granitemoeshared")
    json.member("shared_intermediate_size", c.moe_shared_expert_intermediate_size);
  if (type == "flex_olmo") json.member("norm_topk_prob", !c.moe_router_pre_softmax);
  if (type != "minimax_m2") return;
  // Which its makers' class and vLLM read.
  json.member("rotary_dim", c.rotary_dim()).member("scoring_func", "sigmoid");
  json.member("use_routing_bias", true).member("use_qk_norm", true);
}

}  // namespace mt
