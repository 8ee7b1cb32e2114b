#include "formats/hugging_face/layer_norm_families.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/rope_config.h"
#include "model/config/ranges.h"
#include "nn/mlp.h"

namespace mt {
namespace {

// What a family has beside what all have, and how it says that.
struct OwnWords {
  void (*read)(const ConfigJson&, ModelConfig&);
  void (*write)(JsonWriter&, const ModelConfig&);
};

// --- Of each family -----------------------------------------------------------------------------

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
  if (attention.real_or("clip_qkv", 0) != 0)
    attention.refuse("\"clip_qkv\": expected null: no bound is known of queries");
  if (attention.has("softmax_scale")) c.softmax_scale = attention.positive_or("softmax_scale", 1);
  c.attention_dropout = c.hidden_dropout = attention.real_or("attn_pdrop", 0);
}
void write_mpt(JsonWriter& json, const ModelConfig& c) {
  if (c.attention_dropout != c.hidden_dropout)
    refuse_setting("MPT with a --hidden-dropout that is not --attention-dropout");
  json.member("no_bias", true).key("attn_config").begin_object();
  write_base(json, "attn_pdrop", c.attention_dropout);
  json.member("alibi", true);
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
  json.expect_flag("qk_layernorm", false);
  c.swiglu = true;
  c.add_bias_linear = false;
  c.add_qkv_bias = json.flag_or("use_qkv_bias", false);
  c.parallel_block = json.flag_or("use_parallel_residual", false);
}
void write_stablelm(JsonWriter& json, const ModelConfig& c) {
  json.member("qk_layernorm", false).member("use_qkv_bias", c.add_qkv_bias);
  json.member("use_parallel_residual", c.parallel_block);
}

void read_starcoder2(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("use_bias", true);
  if (json.has("sliding_window")) c.window_size = json.window_size();
}
void write_starcoder2(JsonWriter& json, const ModelConfig& c) {
  json.member("use_bias", true);
  write_sliding_window(json, c);
}

void read_olmo(const ConfigJson& json, ModelConfig& c) {
  json.expect_flag("attention_bias", false);
  if (json.has("clip_qkv"))
    json.refuse("\"clip_qkv\": expected null: no bound is known of queries");
  c.swiglu = true;
  c.add_bias_linear = c.norm_weight = c.norm_bias = false;
}
void write_olmo(JsonWriter& json, const ModelConfig&) { json.member("attention_bias", false); }

// --- Their words --------------------------------------------------------------------------------

// What a class of transformers' takes where config.json says nothing, and what it calls it; a name
// that is null stands for what it does not say.
struct LayerNormFamily {
  std::string_view type, architecture;
  OwnWords own;
  std::string_view usual_activation;
  std::int64_t vocab_size, num_layers, hidden_size, num_heads, num_kv_heads, ffn_size,
      num_positions;
  bool tied = false;
  bool rope = true;  // which says its base and its scaling
  double init = 0.02, dropout = 0, dropout_of_scores = 0;
  const char *layers = "num_hidden_layers", *hidden = "hidden_size", *heads = "num_attention_heads",
             *kv_heads = nullptr, *ffn = "intermediate_size",
             *positions = "max_position_embeddings", *epsilon = "layer_norm_eps",
             *activation = "hidden_act", *attention_dropout = "attention_dropout",
             *hidden_dropout = nullptr, *embedding_dropout = nullptr,
             *init_std = "initializer_range";
};
// num_kv_heads 0: as many as heads; ffn_size 0: four times hidden_size.
constexpr LayerNormFamily kLayerNormFamilies[] = {
    {.type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .own = {read_neox, write_neox},
     .usual_activation = "gelu",
     .vocab_size = 50432,
     .num_layers = 44,
     .hidden_size = 6144,
     .num_heads = 64,
     .num_kv_heads = 0,
     .ffn_size = 24576,
     .num_positions = 2048,
     .hidden_dropout = "hidden_dropout"},
    {.type = "gptj",
     .architecture = "GPTJForCausalLM",
     .own = {read_gptj, write_gptj},
     .usual_activation = "gelu_new",
     .vocab_size = 50400,
     .num_layers = 28,
     .hidden_size = 4096,
     .num_heads = 16,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .rope = false,
     .layers = "n_layer",
     .hidden = "n_embd",
     .heads = "n_head",
     .ffn = "n_inner",
     .positions = "n_positions",
     .epsilon = "layer_norm_epsilon",
     .activation = "activation_function",
     .attention_dropout = "attn_pdrop",
     .hidden_dropout = "resid_pdrop",
     .embedding_dropout = "embd_pdrop"},
    {.type = "codegen",
     .architecture = "CodeGenForCausalLM",
     .own = {read_codegen, write_gptj},
     .usual_activation = "gelu_new",
     .vocab_size = 50400,
     .num_layers = 28,
     .hidden_size = 4096,
     .num_heads = 16,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .rope = false,
     .layers = "n_layer",
     .hidden = "n_embd",
     .heads = "n_head",
     .ffn = "n_inner",
     .positions = "n_positions",
     .epsilon = "layer_norm_epsilon",
     .activation = "activation_function",
     .attention_dropout = "attn_pdrop",
     .hidden_dropout = "resid_pdrop",
     .embedding_dropout = "embd_pdrop"},
    {.type = "gpt_bigcode",
     .architecture = "GPTBigCodeForCausalLM",
     .own = {read_gpt_bigcode, write_gpt_bigcode},
     .usual_activation = "gelu_pytorch_tanh",
     .vocab_size = 50257,
     .num_layers = 12,
     .hidden_size = 768,
     .num_heads = 12,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 1024,
     .tied = true,
     .rope = false,
     .dropout = 0.1,
     .dropout_of_scores = 0.1,
     .layers = "n_layer",
     .hidden = "n_embd",
     .heads = "n_head",
     .ffn = "n_inner",
     .positions = "n_positions",
     .epsilon = "layer_norm_epsilon",
     .activation = "activation_function",
     .attention_dropout = "attn_pdrop",
     .hidden_dropout = "resid_pdrop",
     .embedding_dropout = "embd_pdrop"},
    {.type = "gpt_neo",
     .architecture = "GPTNeoForCausalLM",
     .own = {read_gpt_neo, write_gpt_neo},
     .usual_activation = "gelu_new",
     .vocab_size = 50257,
     .num_layers = 24,
     .hidden_size = 2048,
     .num_heads = 16,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .tied = true,
     .rope = false,
     .layers = "num_layers",
     .heads = "num_heads",
     .epsilon = "layer_norm_epsilon",
     .activation = "activation_function",
     .hidden_dropout = "resid_dropout",
     .embedding_dropout = "embed_dropout"},
    {.type = "bloom",
     .architecture = "BloomForCausalLM",
     .own = {read_bloom, write_bloom},
     .usual_activation = "gelu_new",
     .vocab_size = 250880,
     .num_layers = 2,
     .hidden_size = 64,
     .num_heads = 8,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .tied = true,
     .rope = false,
     .layers = "n_layer",
     .heads = "n_head",
     .ffn = nullptr,
     .positions = "seq_length",  // its class knows any
     .epsilon = "layer_norm_epsilon",
     .activation = nullptr,
     .hidden_dropout = "hidden_dropout"},
    {.type = "mpt",
     .architecture = "MptForCausalLM",
     .own = {read_mpt, write_mpt},
     .usual_activation = "gelu",
     .vocab_size = 50368,
     .num_layers = 24,
     .hidden_size = 2048,
     .num_heads = 16,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .tied = true,
     .rope = false,
     .layers = "n_layers",
     .hidden = "d_model",
     .heads = "n_heads",
     .ffn = nullptr,
     .positions = "max_seq_len",
     .epsilon = "layer_norm_epsilon",
     .activation = nullptr,
     .attention_dropout = nullptr},
    {.type = "falcon",
     .architecture = "FalconForCausalLM",
     .own = {read_falcon, write_falcon},
     .usual_activation = "gelu",
     .vocab_size = 65024,
     .num_layers = 32,
     .hidden_size = 4544,
     .num_heads = 71,
     .num_kv_heads = 0,
     .ffn_size = 0,
     .num_positions = 2048,
     .tied = true,
     .ffn = "ffn_hidden_size",
     .epsilon = "layer_norm_epsilon",
     .activation = "activation",
     .hidden_dropout = "hidden_dropout"},
    {.type = "phi",
     .architecture = "PhiForCausalLM",
     .own = {read_phi, write_qk_layernorm},
     .usual_activation = "gelu_new",
     .vocab_size = 51200,
     .num_layers = 24,
     .hidden_size = 2048,
     .num_heads = 32,
     .num_kv_heads = 0,
     .ffn_size = 8192,
     .num_positions = 2048,
     .kv_heads = "num_key_value_heads",
     .hidden_dropout = "resid_pdrop",
     .embedding_dropout = "embd_pdrop"},
    {.type = "opt",
     .architecture = "OPTForCausalLM",
     .own = {read_opt, write_opt},
     .usual_activation = "relu",
     .vocab_size = 50272,
     .num_layers = 12,
     .hidden_size = 768,
     .num_heads = 12,
     .num_kv_heads = 0,
     .ffn_size = 3072,
     .num_positions = 2048,
     .tied = true,
     .rope = false,
     .dropout = 0.1,
     .ffn = "ffn_dim",
     .epsilon = nullptr,
     .activation = "activation_function",
     .hidden_dropout = "dropout",
     .init_std = "init_std"},
    {.type = "biogpt",
     .architecture = "BioGptForCausalLM",
     .own = {read_biogpt, write_biogpt},
     .usual_activation = "gelu",
     .vocab_size = 42384,
     .num_layers = 24,
     .hidden_size = 1024,
     .num_heads = 16,
     .num_kv_heads = 0,
     .ffn_size = 4096,
     .num_positions = 1024,
     .tied = true,
     .rope = false,
     .dropout = 0.1,
     .dropout_of_scores = 0.1,
     .epsilon = nullptr,  // its layer_norm_eps is not read by its class
     .attention_dropout = "attention_probs_dropout_prob",
     .hidden_dropout = "hidden_dropout_prob"},
    {.type = "persimmon",
     .architecture = "PersimmonForCausalLM",
     .own = {read_persimmon, write_qk_layernorm},
     .usual_activation = "relu2",
     .vocab_size = 262144,
     .num_layers = 36,
     .hidden_size = 4096,
     .num_heads = 64,
     .num_kv_heads = 0,
     .ffn_size = 16384,
     .num_positions = 16384,
     .hidden_dropout = "hidden_dropout"},
    {.type = "jais2",
     .architecture = "Jais2ForCausalLM",
     .own = {read_jais2, write_jais2},
     .usual_activation = "relu2",
     .vocab_size = 150272,
     .num_layers = 32,
     .hidden_size = 3328,
     .num_heads = 26,
     .num_kv_heads = 0,
     .ffn_size = 26624,
     .num_positions = 8192,
     .kv_heads = "num_key_value_heads"},
    {.type = "stablelm",
     .architecture = "StableLmForCausalLM",
     .own = {read_stablelm, write_stablelm},
     .usual_activation = "silu",
     .vocab_size = 50304,
     .num_layers = 32,
     .hidden_size = 2560,
     .num_heads = 32,
     .num_kv_heads = 32,
     .ffn_size = 6912,
     .num_positions = 4096,
     .kv_heads = "num_key_value_heads",
     .hidden_dropout = "hidden_dropout"},
    {.type = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .own = {read_starcoder2, write_starcoder2},
     .usual_activation = "gelu_pytorch_tanh",
     .vocab_size = 49152,
     .num_layers = 30,
     .hidden_size = 3072,
     .num_heads = 24,
     .num_kv_heads = 2,
     .ffn_size = 12288,
     .num_positions = 4096,
     .tied = true,
     .init = 0.018042,
     .kv_heads = "num_key_value_heads",
     .epsilon = "norm_epsilon",
     .hidden_dropout = "residual_dropout",
     .embedding_dropout = "embedding_dropout"},
    {.type = "olmo",
     .architecture = "OlmoForCausalLM",
     .own = {read_olmo, write_olmo},
     .usual_activation = "silu",
     .vocab_size = 50304,
     .num_layers = 32,
     .hidden_size = 4096,
     .num_heads = 32,
     .num_kv_heads = 0,
     .ffn_size = 11008,
     .num_positions = 2048,
     .kv_heads = "num_key_value_heads",
     .epsilon = nullptr},
};

const LayerNormFamily* find_layer_norm_family(std::string_view type) {
  const auto* const found = std::ranges::find(kLayerNormFamilies, type, &LayerNormFamily::type);
  return found == std::end(kLayerNormFamilies) ? nullptr : found;
}

void read_hidden_dropout(const ConfigJson& json, const LayerNormFamily& usual,
                         HuggingFaceConfig& config) {
  double& hidden = config.model.hidden_dropout;
  hidden = usual.hidden_dropout ? json.real_or(usual.hidden_dropout, usual.dropout) : 0;
  const bool alike = usual.type == "gpt_neox" || usual.type == "biogpt";
  const double embeddings = usual.embedding_dropout
                                ? json.real_or(usual.embedding_dropout, usual.dropout)
                            : alike ? hidden
                                    : 0;
  if (usual.hidden_dropout) note_embedding_dropout(json, usual.hidden_dropout, embeddings, config);
}

// The activation's kind is one that the model, whose biases are known, can have.
void read_activation(const ConfigJson& json, const LayerNormFamily& usual, ModelConfig& c) {
  const std::string_view name = usual.activation
                                    ? json.text_or(usual.activation, usual.usual_activation)
                                    : usual.usual_activation;
  if (c.swiglu) {
    if (!is_silu(name)) json.expect_text(usual.activation, "silu");
    return;
  }
  c.relu = name == "relu";
  c.squared_relu = name == "relu2";
  c.bias_gelu_fusion = is_tanh_gelu(name);
  const bool known =
      c.relu || c.squared_relu || is_erf_gelu(name) || (c.bias_gelu_fusion && c.add_bias_linear);
  if (!known)
    json.refuse(json_quoted(usual.activation), " is ", json_quoted(name), ", expected ",
                c.add_bias_linear ? "gelu, gelu_new, relu or relu2"
                                  : "gelu, relu or relu2, without biases");
}

std::string_view activation_name(const ModelConfig& c, const LayerNormFamily& usual) {
  switch (c.activation()) {
    case Activation::swiglu:
      return "silu";
    case Activation::relu:
      return "relu";
    case Activation::squared_relu:
      return "relu2";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::gelu_tanh:
      return is_tanh_gelu(usual.usual_activation) ? usual.usual_activation : "gelu_new";
    default:
      refuse_setting("LayerNorms with this activation");
  }
}

}  // namespace

void note_embedding_dropout(const ConfigJson& json, const char* hidden_dropout, double embeddings,
                            HuggingFaceConfig& config) {
  const double hidden = config.model.hidden_dropout;
  if (embeddings != hidden)
    config.notes.push_back(concat(json.where(), ": ", json_quoted(hidden_dropout), " is ", hidden,
                                  ", at which training drops embeddings, too; transformers drops "
                                  "these at ",
                                  embeddings));
}

void write_embedding_dropout(JsonWriter& json, const ModelConfig& c, const char* name,
                             const JsonObject* original, double usual) {
  json.member(name, !original             ? c.hidden_dropout
                    : original->has(name) ? original->real(name)
                                          : usual);
}

bool is_layer_norm_family(std::string_view type) { return find_layer_norm_family(type) != nullptr; }

std::string_view layer_norm_architecture(std::string_view type) {
  return find_layer_norm_family(type)->architecture;
}

const char* layer_norm_epsilon_name(std::string_view type) {
  const LayerNormFamily* const family = find_layer_norm_family(type);
  return family ? family->epsilon : nullptr;
}

std::string layer_norm_types() {
  std::string types;
  for (const LayerNormFamily& family : kLayerNormFamilies)
    types += concat(types.empty() ? "" : ", ", family.type);
  return types;
}

void read_layer_norm_family(const ConfigJson& json, HuggingFaceConfig& config) {
  const LayerNormFamily& usual = *find_layer_norm_family(json.model_type());
  ModelConfig& c = config.model;
  json.expect_causal();
  c.hf_model_type = usual.type;
  c.vocab_size = json.size_or("vocab_size", usual.vocab_size);
  c.num_layers = json.size_or(usual.layers, usual.num_layers);
  c.hidden_size = json.size_or(usual.hidden, usual.hidden_size);
  c.num_attention_heads = json.size_or(usual.heads, usual.num_heads);
  const std::int64_t ffn = usual.ffn_size > 0 ? usual.ffn_size : 4 * c.hidden_size;
  c.ffn_hidden_size = usual.ffn ? json.size_or(usual.ffn, ffn) : ffn;
  c.max_position_embeddings = json.size_or(usual.positions, usual.num_positions);
  c.norm_epsilon = usual.epsilon ? json.real_or(usual.epsilon, 1e-5) : 1e-5;
  c.init_method_std = json.real_or(usual.init_std, usual.init);
  c.attention_dropout =
      usual.attention_dropout ? json.real_or(usual.attention_dropout, usual.dropout_of_scores) : 0;
  read_hidden_dropout(json, usual, config);
  c.untie_embeddings_and_output_weights = !json.flag_or("tie_word_embeddings", usual.tied);
  c.position_embedding_type = "rope";
  const bool as_heads = !usual.kv_heads || usual.num_kv_heads == 0 || json.is_null(usual.kv_heads);
  const std::int64_t groups = as_heads ? c.num_attention_heads : usual.num_kv_heads;
  c.num_query_groups = usual.kv_heads ? json.size_or(usual.kv_heads, groups) : groups;
  usual.own.read(json, c);
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  read_activation(json, usual, c);
  if (usual.rope) read_rope(json, config, 10000);
}

void write_layer_norm_family(JsonWriter& json, const ModelConfig& c, std::string_view type,
                             const JsonObject* original) {
  const LayerNormFamily& usual = *find_layer_norm_family(type);
  json.member(usual.layers, c.num_layers).member(usual.hidden, c.hidden_size);
  json.member(usual.heads, c.num_attention_heads);
  if (usual.kv_heads) json.member(usual.kv_heads, c.kv_heads());
  if (usual.ffn) json.member(usual.ffn, c.ffn());
  json.member(usual.positions, c.max_position_embeddings);
  if (usual.epsilon) json.member(usual.epsilon, c.norm_epsilon);
  if (usual.activation) json.member(usual.activation, activation_name(c, usual));
  if (usual.attention_dropout) json.member(usual.attention_dropout, c.attention_dropout);
  if (usual.hidden_dropout) json.member(usual.hidden_dropout, c.hidden_dropout);
  if (usual.embedding_dropout)
    write_embedding_dropout(json, c, usual.embedding_dropout, original, usual.dropout);
  if (std::string_view(usual.init_std) != "initializer_range")
    json.member(usual.init_std, c.init_method_std);
  usual.own.write(json, c);
  if (!usual.rope) return;
  write_rope(json, c, {});
  if (c.rotary_percent == 1 && turning_part(type).value_or(1) != 1)
    json.member("partial_rotary_factor", 1.0);
}

}  // namespace mt
