// Granite 4's hybrids: each of their layers is two of ours, a mixer or attention, and an MLP, or
// experts beside which a shared one is, with Granite's multipliers.
#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/dense_families.h"
#include "formats/hugging_face/mamba_families.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

static void read_granite_experts(const ConfigJson& json, ModelConfig& c, std::int64_t experts,
                                 std::int64_t shared) {
  c.num_experts = experts;
  c.moe_router_topk = json.size_or("num_experts_per_tok", 2);
  c.moe_ffn_hidden_size = json.size_or("intermediate_size", 11008);
  c.moe_shared_expert_intermediate_size = shared;
  c.moe_aux_loss_coeff = {json.real_or("router_aux_loss_coef", 0.001)};
  if (c.moe_router_topk == 1) json.refuse("\"num_experts_per_tok\" is 1, expected more");
}

void read_granite_hybrid(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  constexpr std::int64_t kLayers = 1 << 14, kExperts = 1 << 12;
  c.family = ModelFamily::mamba;
  const std::int64_t layers = json.has("num_hidden_layers")
                                  ? json.number("num_hidden_layers", kLayers)
                                  : 32,
                     experts = json.has("num_local_experts")
                                   ? json.number("num_local_experts", kExperts)
                                   : 8;
  const std::string kinds =
      read_layer_kinds(json).value_or(std::string(static_cast<std::size_t>(layers), 'M'));
  if (std::ssize(kinds) != layers || kinds.find_first_not_of("M*") != kinds.npos)
    json.refuse("\"layer_types\": expected mamba or attention for each of ", layers, " layers");
  for (const char kind : kinds) c.hybrid_pattern += {kind, experts > 0 ? 'E' : '-'};
  c.num_layers = 2 * layers;
  c.vocab_size = json.size_or("vocab_size", 32000);
  c.hidden_size = json.size_or("hidden_size", 4096);
  c.num_attention_heads = json.size_or("num_attention_heads", 32);
  c.num_query_groups = json.size_or("num_key_value_heads", c.num_attention_heads);
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  if (json.has("head_dim")) c.kv_channels = json.size("head_dim");
  c.max_position_embeddings = json.size_or("max_position_embeddings", 2048);
  c.attention_dropout = json.real_or("attention_dropout", 0);
  c.hidden_dropout = 0;
  c.swiglu = true;
  c.bias_gelu_fusion = false;
  const std::int64_t shared = json.size_or("shared_intermediate_size", 1024);
  c.ffn_hidden_size = shared;
  if (experts > 0) read_granite_experts(json, c, experts, shared);
  if (!is_silu(json.text_or("hidden_act", "silu"))) json.expect_text("hidden_act", "silu");
  json.expect_flag("attention_bias", false);
  if (!json.has("rms_norm_eps"))
    json.refuse("\"rms_norm_eps\" is 1e-06 where it is not said, expected 1e-05");
  read_mamba_mixers(json, c, 128, 256);
  read_granite_multipliers(json, c);
  if (json.text_or("position_embedding_type", "nope") != "rope") {
    c.position_embedding_type = "none";
    return;
  }
  c.position_embedding_type = "rope";
  read_rope(json, config, 10000);
}

// --- Writing ------------------------------------------------------------------------------------

// Their experts are chosen by logits alone, and a shared one is always beside them.
static void check_granite_experts(const ModelConfig& c) {
  ModelConfig plain;
  plain.num_experts = c.num_experts;
  plain.moe_router_topk = c.moe_router_topk;
  plain.moe_ffn_hidden_size = c.moe_ffn_hidden_size;
  plain.moe_shared_expert_intermediate_size = c.moe_shared_expert_intermediate_size;
  plain.moe_aux_loss_coeff = c.moe_aux_loss_coeff;
  plain.moe_z_loss_coeff = c.moe_z_loss_coeff;
  plain.moe_router_dtype = c.moe_router_dtype;
  plain.moe_input_jitter_eps = c.moe_input_jitter_eps;
  plain.moe_router_bias_update_rate = c.moe_router_bias_update_rate;
  if (!c.has_sinkhorn()) plain.moe_router_load_balancing_type = c.moe_router_load_balancing_type;
  if (c.moe_shared_expert_intermediate_size == 0)
    refuse_setting("a hybrid of Mamba layers and experts with --swiglu and without shared experts");
  if (!(static_cast<const ExpertConfig&>(c) == static_cast<const ExpertConfig&>(plain)))
    refuse_setting(
        "a hybrid of Mamba layers and experts with --swiglu whose experts a softmax of the chosen "
        "logits alone does not weigh");
}

void check_granite_hybrid(const ModelConfig& c) {
  const std::string& pattern = c.hybrid_pattern;
  const char second = pattern.size() > 1 && pattern[1] == 'E' ? 'E' : '-';
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern.size() % 2 == 1 ||
        (i % 2 == 1 ? pattern[i] != second : pattern[i] != 'M' && pattern[i] != '*'))
      refuse_setting(
          "a hybrid of Mamba layers with --swiglu where not every second layer is an MLP, or has "
          "experts");
  if (second == 'E') check_granite_experts(c);
  if ((c.has_rope() && (c.rotary_interleaved || c.rotary_percent != 1)) || c.has_positions())
    refuse_setting("a hybrid of Mamba layers with --swiglu whose positions are not plain rotary");
  check_mamba_decoder(c);
}

void write_granite_hybrid(JsonWriter& json, const ModelConfig& c) {
  const bool experts = c.has_layer('E');
  json.member("num_hidden_layers", c.num_layers / 2).member("hidden_size", c.hidden_size);
  json.key("layer_types").begin_array();
  for (std::int64_t i = 0; i < c.num_layers; i += 2)
    json.value(c.hybrid_pattern[static_cast<std::size_t>(i)] == '*' ? "attention" : "mamba");
  json.end_array();
  json.member("num_attention_heads", c.num_attention_heads);
  json.member("num_key_value_heads", c.kv_heads());
  const std::int64_t shared = experts ? c.moe_shared_expert_intermediate_size : c.ffn();
  json.member("intermediate_size", experts ? c.expert_ffn() : shared);
  json.member("shared_intermediate_size", shared).member("hidden_act", "silu");
  json.member("num_local_experts", experts ? c.num_experts : 0);
  json.member("num_experts_per_tok", experts ? c.moe_router_topk : 0);
  json.key("router_aux_loss_coef").raw(fraction_of(c.aux_loss_coeff("aux_loss")));
  json.member("max_position_embeddings", c.max_position_embeddings);
  write_mamba_mixers(json, c);
  write_granite_multipliers(json, c);
  json.member("position_embedding_type", c.has_rope() ? "rope" : "nope");
  json.member("attention_dropout", c.attention_dropout).member("attention_bias", false);
  if (c.has_rope()) write_rope(json, c, {});
}

}  // namespace mt
