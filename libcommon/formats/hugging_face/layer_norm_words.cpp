#include "formats/hugging_face/layer_norm_words.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/rope_config.h"
#include "model/config/ranges.h"

namespace mt {
namespace {

// Which layers have a window: attention_layers says it of each, and else attention_types in runs of
// layers, each so many times: [[["global", "local"], 12]].
class LocalLayers {
 public:
  LocalLayers(const ConfigJson& json, std::int64_t layers) : json_(json), layers_(layers) {}

  std::vector<std::int64_t> read() {
    member_ = json_.has("attention_layers") ? "attention_layers" : "attention_types";
    simdjson::dom::array list;
    if (!json_.has(member_)) {
      for (std::int64_t layer = 0; layer < 24; ++layer) local_.push_back(layer % 2);
    } else if (json_.member(member_).get(list)) {
      refuse();
    } else if (json_.has("attention_layers")) {
      add(list);
    } else {
      for (const simdjson::dom::element run : list) add_run(run);
    }
    if (std::ssize(local_) != layers_) refuse();
    return local_;
  }

 private:
  [[noreturn]] void refuse() const {
    json_.refuse(json_quoted(member_), ": expected global or local for each of ", layers_,
                 " layers");
  }
  void add(const simdjson::dom::array& kinds) {
    for (const simdjson::dom::element kind : kinds) {
      std::string_view name;
      if (kind.get(name) || (name != "global" && name != "local") || std::ssize(local_) == layers_)
        refuse();
      local_.push_back(name == "local");
    }
  }
  void add_run(simdjson::dom::element run) {
    simdjson::dom::array pair, kinds;
    std::int64_t times = 0;
    if (run.get(pair) || pair.size() != 2 || pair.at(0).get(kinds) || pair.at(1).get(times) ||
        times < 0 || times > layers_)
      refuse();
    for (std::int64_t i = 0; i < times; ++i) add(kinds);
  }

  const ConfigJson& json_;
  std::int64_t layers_;
  const char* member_ = nullptr;
  std::vector<std::int64_t> local_;
};

// A bound of queries, keys and values; 0: there is none.
double read_clip(const ConfigJson& json) {
  return json.has("clip_qkv") ? json.positive_or("clip_qkv", 1) : 0;
}

}  // namespace

void read_neox(const ConfigJson& json, ModelConfig& c) {
  c.parallel_block = c.parallel_norms = json.flag_or("use_parallel_residual", true);
  c.attention_bias = json.flag_or("attention_bias", true);
  if (json.has("head_dim") && c.num_attention_heads > 0)
    json.expect_number("head_dim", c.hidden_size / c.num_attention_heads);
}
void write_neox(JsonWriter& json, const ModelConfig& c) {
  json.member("use_parallel_residual", c.parallel_block).member("attention_bias", c.attention_bias);
  json.member("rotary_pct", c.rotary_percent);
  write_base(json, "rotary_emb_base", c.rotary_base);
}

// Part of a head's channels turn, those beside each other together.
void read_gptj(const ConfigJson& json, ModelConfig& c) {
  const std::int64_t turning = json.is_null("rotary_dim") ? 0 : json.count_or("rotary_dim", 64),
                     channels = c.num_attention_heads > 0 ? c.head_dim() : 0;
  if (turning == 0 || turning > channels)
    json.refuse("\"rotary_dim\" is ", turning, ", expected 1 to the ", channels,
                " channels of a head");
  c.rotary_percent = rotary_percent_of(turning, channels);
  c.parallel_block = c.rotary_interleaved = c.output_bias = true;
  c.attention_bias = false;
}
void write_gptj(JsonWriter& json, const ModelConfig& c) {
  if (c.rotary_base != 10000 || c.rotary_interpolation || c.use_rope_scaling ||
      !c.rope_frequency_factors.empty() || c.rope_attention_factor != 1)
    refuse_setting("GPT-J or CodeGen with other rotary frequencies than those of base 10000");
  json.member("rotary_dim", c.rotary_dim());
}

// Scores are products alone.
void read_gpt_neo(const ConfigJson& json, ModelConfig& c) {
  c.position_embedding_type = "learned_absolute";
  c.qkv_bias = false;
  c.softmax_scale = 1;
  if (c.num_layers > kMany) return;  // which is refused
  const std::vector<std::int64_t> local = LocalLayers(json, c.num_layers).read();
  const auto windows = std::ranges::count(local, 1);
  if (windows == 0) return;
  c.window_size = concat(json.count_or("window_size", 256) - 1, ",0");
  if (windows != c.num_layers) c.window_attn_skip_freq = local;
}
void write_gpt_neo(JsonWriter& json, const ModelConfig& c) {
  json.key("attention_types").begin_array().begin_array().begin_array();
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    json.value(c.window(layer) < 0 ? "global" : "local");
  json.end_array().value(std::int64_t{1}).end_array().end_array();
  json.member("window_size", c.tokens_before() < 0 ? 256 : c.tokens_before() + 1);
}

void read_bloom(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("apply_residual_connection_post_layernorm", false);
  c.position_embedding_type = "alibi";
  c.embedding_layernorm = true;
}
void write_bloom(JsonWriter& json, const ModelConfig&) {
  json.member("apply_residual_connection_post_layernorm", false);
}

// All dropouts but that of scores are passed over by its class, which drops at that rate, too.
void read_mpt(const ConfigJson& json, ModelConfig& c) {
  c.position_embedding_type = "alibi";
  c.add_bias_linear = c.norm_bias = false;
  if (!json.has("attn_config")) return;
  const ConfigJson attention = ConfigJson::as(json.object("attn_config"), "mpt");
  attention.expect_flag("alibi", true);
  attention.expect_flag("qk_ln", false);
  attention.expect_flag("prefix_lm", false);
  attention.expect_number("alibi_bias_max", 8);
  attention.expect_text("attn_type", "multihead_attention");
  if (attention.real_or("clip_qkv", 0) != 0) c.clip_qkv = read_clip(attention);
  if (attention.has("softmax_scale")) c.softmax_scale = attention.positive_or("softmax_scale", 1);
  c.attention_dropout = c.hidden_dropout = attention.real_or("attn_pdrop", 0);
}
void write_mpt(JsonWriter& json, const ModelConfig& c) {
  if (c.attention_dropout != c.hidden_dropout)
    refuse_setting("MPT with a --hidden-dropout that is not --attention-dropout");
  json.member("no_bias", true).key("attn_config").begin_object();
  write_base(json, "attn_pdrop", c.attention_dropout);
  json.member("alibi", true);
  if (c.clip_qkv != 0) json.member("clip_qkv", c.clip_qkv);
  if (c.softmax_scale) json.member("softmax_scale", *c.softmax_scale);
  json.end_object();
}

// Its fused projections are in four parts, of as many heads.
void read_codegen(const ConfigJson& json, ModelConfig& c) {
  if (c.num_attention_heads % 4 != 0)
    json.refuse("\"n_head\" is ", c.num_attention_heads, ", expected a multiple of 4");
  read_gptj(json, c);
}

void read_gpt_bigcode(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("scale_attn_weights", true);
  json.expect_flag("add_cross_attention", false);
  c.position_embedding_type = "learned_absolute";
  if (json.flag_or("multi_query", true)) c.num_query_groups = 1;
}
void write_gpt_bigcode(JsonWriter& json, const ModelConfig& c) {
  json.member("multi_query", c.kv_heads() == 1);
}

void read_falcon(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("alibi", false);
  const bool second = json.flag_or("new_decoder_architecture", false);
  const std::int64_t heads = c.num_attention_heads;
  c.num_query_groups = second                              ? json.size_or("num_kv_heads", heads)
                       : json.flag_or("multi_query", true) ? 1
                                                           : heads;
  c.add_bias_linear = json.flag_or("bias", false);
  c.parallel_block = second || json.flag_or("parallel_attn", true);
  const std::int64_t norms = json.count_or("num_ln_in_parallel_attn", second ? 2 : 1);
  if (norms > 2) json.refuse("\"num_ln_in_parallel_attn\" is ", norms, ", expected 1 or 2");
  c.parallel_norms = second && norms == 2;
}
// Groups of several heads are the newer class's alone, and a class of one group has one norm.
void write_falcon(JsonWriter& json, const ModelConfig& c) {
  const bool one = c.kv_heads() == 1, all = c.kv_heads() == c.num_attention_heads;
  const bool second = c.parallel_norms || !(one || all);
  if (second && !c.parallel_block)
    refuse_setting("Falcon with groups of heads and without --parallel-block");
  json.member("alibi", false).member("new_decoder_architecture", second);
  json.member("multi_query", one).member("parallel_attn", c.parallel_block);
  json.member("num_kv_heads", c.kv_heads()).member("bias", c.add_bias_linear);
  if (second) json.member("num_ln_in_parallel_attn", c.parallel_norms ? 2 : 1);
}

void read_phi(const ConfigJson& json, ModelConfig& c) {
  c.qk_layernorm = json.flag_or("qk_layernorm", false);
  c.parallel_block = c.output_bias = true;
}
void write_qk_layernorm(JsonWriter& json, const ModelConfig& c) {
  json.member("qk_layernorm", c.qk_layernorm);
}

void read_persimmon(const ConfigJson& json, ModelConfig& c) {
  c.qk_layernorm = json.flag_or("qk_layernorm", true);
}

// Either of the biases may be there, but none of the MLP alone lacks.
void read_jais2(const ConfigJson& json, ModelConfig& c) {
  if (json.has("head_dim")) c.kv_channels = json.size("head_dim");
  c.add_bias_linear = json.flag_or("mlp_bias", true);
  c.attention_bias = json.flag_or("attention_bias", true);
  if (c.attention_bias && !c.add_bias_linear)
    json.refuse("\"mlp_bias\" is false and \"attention_bias\" true, which is not supported");
  c.attention_bias |= !c.add_bias_linear;
}
void write_jais2(JsonWriter& json, const ModelConfig& c) {
  json.member("head_dim", c.head_dim());
  json.member("attention_bias", c.has_proj_bias()).member("mlp_bias", c.add_bias_linear);
}

// Positions begin at the third of the table's rows.
void read_opt(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("do_layer_norm_before", true);
  json.expect_flag("_remove_final_layer_norm", false);
  if (json.has("word_embed_proj_dim") && json.size("word_embed_proj_dim") != c.hidden_size)
    json.refuse("\"word_embed_proj_dim\" is ", json.size("word_embed_proj_dim"), " and not the ",
                c.hidden_size,
                " of \"hidden_size\": words of another width, as of opt-350m, are not supported");
  c.position_embedding_type = "learned_absolute";
  c.first_position = 2;
  c.add_bias_linear = json.flag_or("enable_bias", true);
  c.norm_weight = c.norm_bias = json.flag_or("layer_norm_elementwise_affine", true);
}
void write_opt(JsonWriter& json, const ModelConfig& c) {
  json.member("do_layer_norm_before", true).member("word_embed_proj_dim", c.hidden_size);
  json.member("enable_bias", c.add_bias_linear);
  json.member("layer_norm_elementwise_affine", c.norm_weight);
}

// As an OPT, with words that are multiplied.
void read_biogpt(const ConfigJson& json, ModelConfig& c) {
  c.position_embedding_type = "learned_absolute";
  c.first_position = 2;
  if (json.flag_or("scale_embedding", true))
    c.embedding_mult = std::sqrt(static_cast<double>(c.hidden_size));
}
void write_biogpt(JsonWriter& json, const ModelConfig& c) {
  json.member("scale_embedding", c.embedding_mult != 1);
}

void read_stablelm(const ConfigJson& json, ModelConfig& c) {
  c.qk_layernorm = c.qk_layernorm_per_head = json.flag_or("qk_layernorm", false);
  c.swiglu = true;
  c.add_bias_linear = false;
  c.add_qkv_bias = json.flag_or("use_qkv_bias", false);
  c.parallel_block = json.flag_or("use_parallel_residual", false);
}
void write_stablelm(JsonWriter& json, const ModelConfig& c) {
  write_qk_layernorm(json, c);
  json.member("use_qkv_bias", c.add_qkv_bias);
  json.member("use_parallel_residual", c.parallel_block);
}

void read_starcoder2(const ConfigJson& json, ModelConfig& c) {
  c.add_bias_linear = json.flag_or("use_bias", true);
  if (json.has("sliding_window")) c.window_size = json.window_size();
}
void write_starcoder2(JsonWriter& json, const ModelConfig& c) {
  json.member("use_bias", c.add_bias_linear);
  write_sliding_window(json, c);
}

void read_olmo(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("attention_bias", false);
  c.clip_qkv = read_clip(json);
  c.swiglu = true;
  c.add_bias_linear = c.norm_weight = c.norm_bias = false;
}
void write_olmo(JsonWriter& json, const ModelConfig& c) {
  json.member("attention_bias", false).key("clip_qkv");
  if (c.clip_qkv != 0)
    json.value(c.clip_qkv);
  else
    json.null();
}

}  // namespace mt
