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

// As a GLM-4.5's in all layers.
static void read_solar(const ConfigJson& json, ModelConfig& c) {
  expect_whole_turns(json, c);
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "n_routed_experts", 128);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  const std::int64_t width = json.size_or("moe_intermediate_size", 1280);
  c.moe_ffn_hidden_size = width;
  c.moe_shared_expert_intermediate_size = json.count_or("n_shared_experts", 1) * width;
  read_sigmoid_router(json, c);
}

// Behind as many dense layers as are said, or in those that are listed.
static void read_exaone(const ConfigJson& json, ModelConfig& c) {
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "num_experts", 64);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  const std::int64_t width = json.size_or("moe_intermediate_size", 1024);
  c.moe_ffn_hidden_size = width;
  c.moe_shared_expert_intermediate_size = json.count_or("num_shared_experts", 1) * width;
  read_sigmoid_router(json, c);
  if (!json.has("routed_scaling_factor")) c.moe_router_topk_scaling_factor = 2.5;
  std::vector<bool> experts(static_cast<std::size_t>(c.num_layers), true);
  const std::int64_t dense = json.size_or("first_k_dense_replace", 1);
  std::fill_n(experts.begin(), std::min(dense, c.num_layers), false);
  set_expert_layers(c, json.sparse_layers(c.num_layers).value_or(experts));
}

// Behind one dense layer, in one group.
static void read_hy3(const ConfigJson& json, ModelConfig& c) {
  c.num_experts =
      json.size_or(json.has("num_local_experts") ? "num_local_experts" : "num_experts", 192);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 8);
  if (c.moe_router_topk == 1)
    json.refuse("\"num_experts_per_tok\" is 1, expected more, of which the sum is 1");
  const std::int64_t width = json.size_or("moe_intermediate_size", 1536);
  c.moe_ffn_hidden_size = width;
  c.moe_shared_expert_intermediate_size = json.count_or("num_shared_experts", 1) * width;
  c.moe_router_score_function = "sigmoid";
  c.moe_router_enable_expert_bias = true;
  c.moe_router_dtype = "fp32";  // whatever the rest is computed in
  if (const double factor = json.positive_or("router_scaling_factor", 2.826); factor != 1)
    c.moe_router_topk_scaling_factor = factor;
  json.expect_flag("mlp_bias", false);
  read_sparse_layers(json, c);
}

// Its makers have a number for each layer, which is to be the same for all.
static std::int64_t number_of_all(const ConfigJson& json, const char* name, std::int64_t usual) {
  simdjson::dom::array list;
  if (!json.has(name) || json.member(name).get(list)) return json.size_or(name, usual);
  std::int64_t first = -1;
  for (const simdjson::dom::element entry : list) {
    std::int64_t number = 0;
    if (entry.get(number) || number < 0 || number > kMostSize || (first >= 0 && number != first))
      json.refuse(json_quoted(name), ": expected one number of all layers");
    first = number;
  }
  if (first < 0) json.refuse(json_quoted(name), ": expected a number");
  return first;
}

// Softmaxes choose, and one expert of the same width is shared.
static void read_hunyuan(const ConfigJson& json, ModelConfig& c) {
  const bool as_others = !json.has("moe_topk") && json.has("num_experts_per_tok");
  c.num_experts =
      number_of_all(json, json.has("num_experts") ? "num_experts" : "num_local_experts", 1);
  c.moe_router_topk = number_of_all(json, as_others ? "num_experts_per_tok" : "moe_topk", 1);
  if (c.moe_router_topk == 1) json.refuse("\"moe_topk\" is 1, expected more");
  c.moe_shared_expert_intermediate_size = c.ffn();
  for (const auto& [name, expected] : {std::pair("num_shared_expert", std::int64_t{1}),
                                       {"moe_intermediate_size", c.ffn()},
                                       {"moe_layer_num_skipped", 0}})
    if (const std::int64_t number = number_of_all(json, name, expected); number != expected)
      json.refuse(json_quoted(name), " is ", number, ", expected ", expected);
  json.expect_flag("use_mixed_mlp_moe", true);
  json.expect_flag("use_qk_norm", true);
  json.expect_flag("use_cla", false);
}

struct TypedExperts {
  std::string_view type;
  void (*read)(const ConfigJson&, ModelConfig&);
  bool width_is_an_experts;
};
static constexpr TypedExperts kTyped[] = {{"granitemoeshared", read_granite_shared, true},
                                          {"flex_olmo", read_flex_olmo, true},
                                          {"minimax_m2", read_minimax, true},
                                          {"solar_open", read_solar, false},
                                          {"exaone_moe", read_exaone, false},
                                          {"hunyuan_v1_moe", read_hunyuan, true},
                                          {"hy_v3", read_hy3, false}};

static const TypedExperts* find_typed(std::string_view type) {
  const auto* const found = std::ranges::find(kTyped, type, &TypedExperts::type);
  return found == std::end(kTyped) ? nullptr : found;
}

bool has_typed_experts(std::string_view type) { return find_typed(type) != nullptr; }

bool is_width_of_typed_experts(std::string_view type) {
  const TypedExperts* const found = find_typed(type);
  return found != nullptr && found->width_is_an_experts;
}

void read_typed_experts(const ConfigJson& json, HuggingFaceConfig& config) {
  config.model.family = ModelFamily::mixtral;
  find_typed(json.model_type())->read(json, config.model);
  // Layers that predict further tokens, as by their classes.
  if (json.is("exaone_moe")) config.passed_over = "mtp.";
  if (json.is("hy_v3")) config.passed_over = concat("model.layers.", config.model.num_layers, ".");
}

// --- Writing ------------------------------------------------------------------------------------

// Of those that sigmoids choose.
static void write_grouped(JsonWriter& json, const ModelConfig& c, bool solar) {
  json.member(solar ? "n_routed_experts" : "num_experts", c.num_experts);
  json.member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member(solar ? "n_shared_experts" : "num_shared_experts",
              c.moe_shared_expert_intermediate_size / c.expert_ffn());
  write_sigmoid_router(json, c);
  if (!solar) write_sparse_layers(json, c);
}

static void write_hy3(JsonWriter& json, const ModelConfig& c) {
  json.member("num_experts", c.num_experts).member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("num_shared_experts", c.moe_shared_expert_intermediate_size / c.expert_ffn());
  const double factor = c.moe_router_topk_scaling_factor;
  json.key("router_scaling_factor").raw(fraction_of(factor == 0 ? 1 : factor));
  json.member("mlp_bias", false);
  write_sparse_layers(json, c);
}

static void write_hunyuan(JsonWriter& json, const ModelConfig& c) {
  json.member("num_experts", c.num_experts).member("moe_topk", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn()).member("num_shared_expert", 1);
  json.member("use_mixed_mlp_moe", true).member("use_qk_norm", true);
}

void write_typed_experts(JsonWriter& json, const ModelConfig& c, std::string_view type) {
  if (type == "solar_open" || type == "exaone_moe")
    return write_grouped(json, c, type == "solar_open");
  if (type == "hy_v3") return write_hy3(json, c);
  if (type == "hunyuan_v1_moe") return write_hunyuan(json, c);
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
