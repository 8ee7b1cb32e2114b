#include "formats/gguf/gguf_mamba.h"

#include <algorithm>
#include <cmath>

#include "formats/gguf/gguf_experts.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/mamba_families.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr std::int64_t kAnyContext = 1 << 20;  // of a model without positions

bool is_of_pairs(const ModelConfig& c) { return c.swiglu && c.is_hybrid(); }

[[noreturn]] void refuse(const GgufArchitecture& architecture, const char* flag) {
  fail(Exit::bad_config, flag, ": llama.cpp computes ", architecture.name, " with another");
}

void add_mixers(GgufSettingsWriter& to, const ModelConfig& c) {
  to.size("ssm.conv_kernel", kMambaConv);
  to.size("ssm.inner_size", c.mamba_inner());
  to.size("ssm.state_size", c.mamba_state_dim);
  to.size("ssm.time_step_rank", c.mamba_num_heads);
  to.size("ssm.group_count", c.mamba_num_groups);
}

// Of each layer, what it has where the pattern has that letter, else 0.
std::vector<std::int32_t> sizes_of(const std::string& pattern, char letter, std::int64_t size,
                                   std::size_t step = 1) {
  std::vector<std::int32_t> sizes;
  for (std::size_t i = 0; i < pattern.size(); i += step)
    sizes.push_back(pattern[i] == letter ? static_cast<std::int32_t>(size) : 0);
  return sizes;
}

void add_attention(GgufSettingsWriter& to, const ModelConfig& c) {
  to.size("attention.head_count", c.num_attention_heads);
  to.size("attention.key_length", c.head_dim());
  to.size("attention.value_length", c.head_dim());
}

void add_nemotron(GgufKeyValues& values, GgufSettingsWriter& to, const ModelConfig& c,
                  std::string_view name) {
  const bool experts = c.has_layer('E');
  values.integers(concat(name, ".feed_forward_length"),
                  experts ? sizes_of(c.hybrid_pattern, 'E', c.expert_ffn())
                          : sizes_of(c.hybrid_pattern, '-', c.ffn()));
  values.integers(concat(name, ".attention.head_count_kv"),
                  sizes_of(c.hybrid_pattern, '*', c.kv_heads()));
  add_attention(to, c);
  to.real("attention.layer_norm_epsilon", c.norm_epsilon);  // llama.cpp asks for both
  if (!experts) return;
  to.size("expert_count", c.num_experts);
  to.size("expert_used_count", c.moe_router_topk);
  to.size("expert_feed_forward_length", c.expert_ffn());
  to.size("expert_shared_feed_forward_length", c.moe_shared_expert_intermediate_size);
  to.size("expert_shared_count", 1);
  to.flag("expert_weights_norm", true);
  to.real("expert_weights_scale",
          c.moe_router_topk_scaling_factor == 0 ? 1 : c.moe_router_topk_scaling_factor);
  if (c.moe_latent_size > 0) to.size("moe_latent_size", c.moe_latent_size);
  if (c.moe_router_num_groups == 0) return;
  to.size("expert_group_count", c.moe_router_num_groups);
  to.size("expert_group_used_count", c.moe_router_group_topk);
}

void add_granite(GgufKeyValues& values, GgufSettingsWriter& to, const ModelConfig& c,
                 std::string_view name) {
  const bool experts = c.has_layer('E');
  to.size("feed_forward_length", experts ? c.expert_ffn() : c.ffn());
  values.integers(concat(name, ".attention.head_count_kv"),
                  sizes_of(c.hybrid_pattern, '*', c.kv_heads(), 2));
  add_attention(to, c);
  to.size("rope.dimension_count", c.head_dim());
  to.real("rope.freq_base", c.rotary_base);
  to.flag("rope.scaling.finetuned", c.has_rope());
  to.real("embedding_scale", c.embedding_mult);
  to.real("residual_scale", c.residual_mult);
  to.real("attention.scale", c.score_scale());
  to.real("logit_scale", 1 / c.logit_scale);
  if (!experts) return;
  to.size("expert_count", c.num_experts);
  to.size("expert_used_count", c.moe_router_topk);
  to.size("expert_shared_feed_forward_length", c.moe_shared_expert_intermediate_size);
}

// A list of each layer's.
std::vector<std::int64_t> list_of(const GgufSettings& file, const char* key) {
  std::vector<std::int64_t> sizes = file.value(key).as_numbers(file.where(key));
  const auto layers = static_cast<std::size_t>(file.size("block_count"));
  if (sizes.size() == 1) sizes.resize(layers, sizes[0]);
  if (sizes.size() != layers)
    fail(Exit::bad_data, file.where(key), ": are ", sizes.size(), " of ", layers, " layers");
  return sizes;
}
// What all that have any have.
std::int64_t common_of(const GgufSettings& file, const char* key,
                       const std::vector<std::int64_t>& sizes) {
  std::int64_t common = 0;
  for (const std::int64_t size : sizes)
    if (size != 0 && common != 0 && size != common)
      fail(Exit::bad_config, file.where(key), ": has ", common, " and ", size,
           ", expected one size of all");
    else if (size != 0)
      common = size;
  return common;
}

constexpr const char *kHeads = "attention.head_count_kv", *kWidths = "feed_forward_length";

void read_nemotron(JsonWriter& json, const GgufSettings& file, bool experts) {
  const std::vector<std::int64_t> heads = list_of(file, kHeads), widths = list_of(file, kWidths);
  std::string pattern;
  for (std::size_t i = 0; i < heads.size(); ++i)
    pattern += widths[i] > 0 ? experts ? 'E' : '-' : heads[i] > 0 ? '*' : 'M';
  json.member("hybrid_override_pattern", pattern);
  json.member("num_attention_heads", file.size("attention.head_count"));
  json.member("num_key_value_heads", common_of(file, kHeads, heads));
  json.member("head_dim", file.size("attention.key_length"));
  json.member("intermediate_size", common_of(file, kWidths, widths));
  json.member("max_position_embeddings", file.size("context_length"));
  json.member("mlp_hidden_act", "relu2").member("mamba_hidden_act", "silu");
  json.member("mamba_num_heads", file.size("ssm.time_step_rank"));
  json.member("mamba_head_dim", file.size("ssm.inner_size") / file.size("ssm.time_step_rank"));
  json.member("ssm_state_size", file.size("ssm.state_size"));
  if (!experts) return;
  json.member("n_routed_experts", file.size("expert_count")).member("n_shared_experts", 1);
  json.member("num_experts_per_tok", file.size("expert_used_count"));
  json.member("moe_intermediate_size", file.size("expert_feed_forward_length"));
  json.member("moe_shared_expert_intermediate_size",
              file.size("expert_shared_feed_forward_length"));
  if (file.has("moe_latent_size")) json.member("moe_latent_size", file.size("moe_latent_size"));
  json.key("routed_scaling_factor").raw(file.digits("expert_weights_scale"));
  json.member("norm_topk_prob", file.flag_or("expert_weights_norm", false));
  json.member("n_group", file.size_or("expert_group_count", 1));
  json.member("topk_group", file.size_or("expert_group_used_count", 1));
}

void read_granite(JsonWriter& json, const GgufSettings& file, bool experts) {
  const std::vector<std::int64_t> heads = list_of(file, kHeads);
  json.key("layer_types").begin_array();
  for (const std::int64_t count : heads) json.value(count > 0 ? "attention" : "mamba");
  json.end_array();
  json.member("num_attention_heads", file.size("attention.head_count"));
  json.member("num_key_value_heads", common_of(file, kHeads, heads));
  const std::int64_t width = file.size("feed_forward_length");
  json.member("intermediate_size", width).member("hidden_act", "silu");
  json.member("shared_intermediate_size",
              experts ? file.size("expert_shared_feed_forward_length") : width);
  json.member("num_local_experts", file.size_or("expert_count", 0));
  json.member("num_experts_per_tok", file.size_or("expert_used_count", 0));
  json.member("max_position_embeddings", file.size("context_length"));
  json.member("mamba_n_heads", file.size("ssm.time_step_rank"));
  json.member("mamba_d_head", file.size("ssm.inner_size") / file.size("ssm.time_step_rank"));
  json.member("mamba_d_state", file.size("ssm.state_size"));
  json.member("mamba_n_groups", file.size("ssm.group_count"));
  json.member("mamba_d_conv", file.size("ssm.conv_kernel"));
  json.member("position_embedding_type",
              file.flag_or("rope.scaling.finetuned", true) ? "rope" : "nope");
  for (const auto& [member, key] : {std::pair("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
                                    {"rope_theta", "rope.freq_base"},
                                    {"embedding_multiplier", "embedding_scale"},
                                    {"residual_multiplier", "residual_scale"},
                                    {"attention_multiplier", "attention.scale"},
                                    {"logits_scaling", "logit_scale"}})
    if (file.has(key)) json.key(member).raw(file.digits(key));
}

void read_mamba2(JsonWriter& json, const GgufSettings& file) {
  const std::int64_t heads = file.size("ssm.time_step_rank"), inner = file.size("ssm.inner_size");
  json.member("num_heads", heads).member("head_dim", inner / heads);
  json.member("state_size", file.size("ssm.state_size")).member("hidden_act", "silu");
  json.member("expand", inner / file.size("embedding_length"));
}

}  // namespace

void check_gguf_mamba(const ModelConfig& c, const GgufArchitecture& architecture) {
  const bool nemotron = architecture.model_type == "nemotron_h", pairs = is_of_pairs(c);
  if (nemotron && c.has_layer('E') && c.has_layer('-')) refuse(architecture, "--hybrid-pattern");
  if (pairs && c.mamba_inner() != 2 * c.hidden_size) refuse(architecture, "--mamba-num-heads");
  if (pairs && !c.has_layer('M'))
    fail(Exit::bad_config, "--hybrid-pattern: llama.cpp's ", architecture.name,
         " has layers of mixers");
  if (has_frequency_factors(c) || c.rope_attention_factor != 1 || c.rotary_interpolation)
    refuse(architecture, "--rope-frequency-factors");
}

void add_gguf_mamba(GgufKeyValues& values, const ModelConfig& c,
                    const GgufArchitecture& architecture) {
  GgufSettingsWriter to(values, architecture.name);
  const bool positions = c.is_hybrid();
  to.size("block_count", is_of_pairs(c) ? c.num_layers / 2 : c.num_layers);
  to.size("context_length", positions ? c.max_position_embeddings : kAnyContext);
  to.size("embedding_length", c.hidden_size);
  to.size("vocab_size", c.vocab_size);
  to.real("attention.layer_norm_rms_epsilon", c.norm_epsilon);
  add_mixers(to, c);
  if (architecture.model_type == "nemotron_h")
    return add_nemotron(values, to, c, architecture.name);
  if (is_of_pairs(c)) return add_granite(values, to, c, architecture.name);
  to.size("feed_forward_length", 0);  // llama.cpp asks for both
  to.size("attention.head_count", 0);
}

void read_gguf_mamba(JsonWriter& json, const GgufSettings& file,
                     const GgufArchitecture& architecture) {
  constexpr const char* kRank = "ssm.time_step_rank";
  if (file.size(kRank) < 1) fail(Exit::bad_data, file.where(kRank), ": is ", file.size(kRank));
  if (file.size("embedding_length") < 1)
    fail(Exit::bad_data, file.where("embedding_length"), ": is ", file.size("embedding_length"));
  const bool experts = architecture.experts != GgufExperts::none;
  json.member("num_hidden_layers", file.size("block_count"));
  json.member("hidden_size", file.size("embedding_length"));
  if (architecture.model_type == "granitemoehybrid") return read_granite(json, file, experts);
  json.member("n_groups", file.size("ssm.group_count"));
  json.member("conv_kernel", file.size("ssm.conv_kernel"));
  json.key("layer_norm_epsilon").raw(file.digits("attention.layer_norm_rms_epsilon"));
  json.member("use_bias", false).member("use_conv_bias", true);
  if (architecture.model_type == "mamba2") return read_mamba2(json, file);
  read_nemotron(json, file, experts);
}

std::string gguf_mamba_layer(const ModelConfig& c, const Param& row) {
  return row.place.layer ? concat("blk.", *row.place.layer / (is_of_pairs(c) ? 2 : 1), ".") : "";
}

std::vector<ForeignName> gguf_mamba_tensors(const ModelConfig& c, const Param& row,
                                            const std::string& layer) {
  const RowPlace& place = row.place;
  const Shape of_heads = {row.shape.numel(), 1};
  if (is_decay(row)) return {{layer + "ssm_a", {reshape(of_heads)}}};
  if (place.module == "mixer" && place.param == "D")
    return {{layer + "ssm_d", {reshape(of_heads)}}};
  if (place.module == "mixer" && place.param == "dt_bias") return {{layer + "ssm_dt.bias"}};
  if (place.module == "mixer.in_proj")
    return {{layer + (place.param == "layer_norm_weight" ? "attn_norm.weight" : "ssm_in.weight")}};
  if (place.module == "mixer.out_proj") return {{layer + "ssm_out.weight"}};
  if (place.module == "mixer.norm")
    return {{layer + "ssm_norm.weight",
             {reshape({c.mamba_num_groups, row.shape.numel() / c.mamba_num_groups})}}};
  if (place.module != "mixer.conv1d") return {};
  if (place.param == "bias") return {{layer + "ssm_conv1d.bias"}};
  return {{layer + "ssm_conv1d.weight", {reshape({row.shape[0], kMambaConv})}}};
}

bool is_decay(const Param& row) {
  return row.place.module == "mixer" && row.place.param == "A_log";
}
bool is_decay(std::string_view tensor) { return tensor.ends_with(".ssm_a"); }
float decay_of(float log) { return static_cast<float>(-std::exp(static_cast<double>(log))); }
float log_of_decay(float decay) {
  return static_cast<float>(std::log(-static_cast<double>(decay)));
}

}  // namespace mt
