#include "formats/gguf/gguf_latent.h"

#include <cstdio>

#include "base/json_object.h"
#include "formats/gguf/gguf_experts.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr ModuleName kLatent[] = {
    {"self_attention.linear_q_proj", "attn_q"},
    {"self_attention.linear_q_down_proj", "attn_q_a"},
    {"self_attention.q_layernorm", "attn_q_a_norm"},
    {"self_attention.linear_q_up_proj", "attn_q_b"},
    {"self_attention.linear_kv_down_proj", "attn_kv_a_mqa"},
    {"self_attention.kv_layernorm", "attn_kv_a_norm"},
};

constexpr std::string_view kName = "deepseek2";

std::string seven_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

void read_scaling(JsonWriter& json, const GgufSettings& file) {
  const std::string kind = file.text_or("rope.scaling.type", "none");
  json.key("rope_scaling");
  if (kind == "none") return void(json.null());
  if (kind != "yarn")
    fail(Exit::bad_config, file.where("rope.scaling.type"), ": is ", json_quoted(kind),
         ", expected none or yarn");
  for (const char* key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                          "rope.scaling.yarn_ext_factor"})
    if (file.has(key) && file.real(key) != 1)
      fail(Exit::bad_config, file.where(key), ": is ", file.real(key), ", expected 1");
  json.begin_object().member("rope_type", "yarn");
  json.key("factor").raw(file.digits("rope.scaling.factor"));
  json.member("original_max_position_embeddings",
              file.size_or("rope.scaling.original_context_length", file.size("context_length")));
  for (const auto& [member, key] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                                    {"beta_slow", "rope.scaling.yarn_beta_slow"}})
    if (file.has(key)) json.key(member).raw(file.digits(key));
  const std::string scale = seven_digits(10 * file.real("rope.scaling.yarn_log_multiplier"));
  json.key("mscale").raw(scale).key("mscale_all_dim").raw(scale);
  json.end_object();
}

void read_experts(JsonWriter& json, const GgufSettings& file) {
  const bool sigmoid = has_sigmoids(file, false);
  read_told_experts(json, file);
  json.member("scoring_func", sigmoid ? "sigmoid" : "softmax");
  json.member("topk_method", sigmoid ? "noaux_tc" : "greedy");
  json.member("moe_layer_freq", 1);
  if (sigmoid) json.member("num_nextn_predict_layers", 0);
}

}  // namespace

void check_gguf_latent(const ModelConfig& c) {
  const auto refuse = [](const char* what, const char* has) {
    fail(Exit::bad_config, what, ": llama.cpp's deepseek2 has ", has);
  };
  if (c.moe_router_num_groups > 0 && c.moe_router_group_score == "max")
    refuse("--moe-router-group-score max", "sums of a group's best two");
  if (c.rotary_scaling_factor != 1 && (c.mscale_all_dim == 0 || c.mscale != c.mscale_all_dim))
    refuse("--mscale", "that of --mscale-all-dim, above 0");
  if (c.latent_norm_epsilon != 0) refuse("--latent-norm-epsilon", "one epsilon for all norms");
  if (c.mtp_num_layers > 0)
    refuse("--mtp-num-layers",
           "no layers that predict further tokens; mt-convert --mtp-num-layers 0 leaves them out");
}

void add_gguf_latent(GgufSettingsWriter& to, const ModelConfig& c) {
  const std::int64_t turning = c.qk_pos_emb_head_dim;
  to.size("attention.key_length", c.kv_lora_rank + turning);
  to.size("attention.value_length", c.kv_lora_rank);
  to.size("attention.key_length_mla", c.latent_q_width());
  to.size("attention.value_length_mla", c.v_head_dim);
  if (c.q_lora_rank) to.size("attention.q_lora_rank", *c.q_lora_rank);
  to.size("attention.kv_lora_rank", c.kv_lora_rank);
  to.size("rope.dimension_count", turning);
  to.real("rope.freq_base", c.rotary_base);
  if (c.rotary_scaling_factor != 1) {
    to.text("rope.scaling.type", "yarn");
    to.real("rope.scaling.factor", c.rotary_scaling_factor);
    to.size("rope.scaling.original_context_length",
            c.original_max_position_embeddings.value_or(c.max_position_embeddings));
    to.real("rope.scaling.yarn_beta_fast", c.yarn_beta_fast);
    to.real("rope.scaling.yarn_beta_slow", c.yarn_beta_slow);
    to.real("rope.scaling.yarn_log_multiplier", 0.1 * c.mscale_all_dim);
  }
  add_told_experts(to, c);
}

std::string gguf_latent_type(const GgufReader& file) {
  return has_sigmoids({file, kName}, false) ? "deepseek_v3" : "deepseek_v2";
}

void read_gguf_latent(JsonWriter& json, const GgufReader& from) {
  const GgufSettings file(from, kName);
  if (!file.has("attention.key_length_mla"))
    fail(Exit::bad_config, file.where("attention.key_length_mla"),
         ": is not there, as in files for a llama.cpp of before April 2025");
  const std::int64_t heads = file.size("attention.head_count"),
                     turning = file.size("rope.dimension_count");
  json.member("num_hidden_layers", file.size("block_count"));
  json.member("hidden_size", file.size("embedding_length"));
  json.member("num_attention_heads", heads).member("num_key_value_heads", heads);
  json.member("intermediate_size", file.size("feed_forward_length"));
  json.member("max_position_embeddings", file.size("context_length"));
  json.key("rms_norm_eps").raw(file.digits("attention.layer_norm_rms_epsilon"));
  json.key("q_lora_rank");
  if (file.has("attention.q_lora_rank"))
    json.value(file.size("attention.q_lora_rank"));
  else
    json.null();
  json.member("kv_lora_rank", file.size("attention.kv_lora_rank"));
  json.member("qk_nope_head_dim", file.size("attention.key_length_mla") - turning);
  json.member("qk_rope_head_dim", turning);
  json.member("v_head_dim", file.size("attention.value_length_mla"));
  json.key("rope_theta").raw(file.digits("rope.freq_base"));
  read_scaling(json, file);
  read_experts(json, file);
}

std::vector<ForeignName> gguf_latent_tensors(const ModelConfig& c, const Param& row,
                                             const std::string& layer) {
  if (row.place.module != "self_attention.linear_kv_up_proj" || row.place.param != "weight")
    return names_in(kLatent, c, row, layer);
  std::vector<ForeignName> names;
  const std::int64_t heads = c.num_attention_heads, rows = row.shape[0], of_head = rows / heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t first = head * of_head;
    names.push_back({.name = layer + "attn_k_b.weight",
                     .transform = {pick_rows(rows, first, c.qk_head_dim), transpose()},
                     .part = head,
                     .parts = heads});
    names.push_back({.name = layer + "attn_v_b.weight",
                     .transform = {pick_rows(rows, first + c.qk_head_dim, c.v_head_dim)},
                     .part = head,
                     .parts = heads});
  }
  return names;
}

}  // namespace mt
