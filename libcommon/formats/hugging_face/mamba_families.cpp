#include "formats/hugging_face/mamba_families.h"

#include "base/json.h"
#include "formats/hugging_face/config_families.h"
#include "formats/hugging_face/rope_config.h"

namespace mt {

// --- Reading ------------------------------------------------------------------------------------

// Megatron's time steps, which are above 0, have no bounds.
static void expect_free_steps(const ConfigJson& json) {
  constexpr double kAny = 1e9;
  if (!json.has("time_step_limit")) return;
  simdjson::dom::array bounds;
  simdjson::dom::element least, most;
  double lower = 0, upper = 0;
  const bool two = !json.member("time_step_limit").get(bounds) && bounds.size() == 2 &&
                   !bounds.at(0).get(least) && !least.get(lower) && !bounds.at(1).get(most);
  std::string_view number;
  const bool endless = two && (most.get(upper) == simdjson::SUCCESS
                                   ? upper >= kAny
                                   : !most["__float__"].get(number) && number == "Infinity");
  if (!endless || lower > 0)
    json.refuse("\"time_step_limit\" bounds the time steps, which Megatron does not do");
}

static void read_mamba_norms(const ConfigJson& json, ModelConfig& c, const char* epsilon) {
  c.normalization = "RMSNorm";
  c.add_bias_linear = false;
  c.norm_epsilon = json.real_or(epsilon, 1e-5);
  if (c.norm_epsilon != 1e-5)
    json.refuse(json_quoted(epsilon), " is ", c.norm_epsilon,
                ", expected 1e-05, which Megatron's gated norms have");
  c.untie_embeddings_and_output_weights = !json.flag_or("tie_word_embeddings", false);
  expect_free_steps(json);
  json.expect_causal();
}

// What Mamba-2 and its hybrids have in common, but for its names.
static void read_mamba_layers(const ConfigJson& json, ModelConfig& c) {
  c.mamba_num_groups = json.size_or("n_groups", 8);
  c.position_embedding_type = "none";
  read_mamba_norms(json, c, "layer_norm_epsilon");
  json.expect_flag("use_bias", false);
  json.expect_flag("use_conv_bias", true);
  json.expect_number("conv_kernel", kMambaConv);
}

void read_mamba2(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::mamba;
  c.num_layers = json.size_or("num_hidden_layers", 64);
  c.hidden_size = json.size_or("hidden_size", 4096);
  c.vocab_size = json.size_or("vocab_size", 32768);
  c.mamba_num_heads = c.num_attention_heads = json.count_or("num_heads", 128);
  c.mamba_head_dim = json.size_or("head_dim", 64);
  c.kv_channels = c.mamba_head_dim;
  c.mamba_state_dim = json.size_or("state_size", 128);
  c.max_position_embeddings = kMostSize;  // it knows no positions
  c.attention_dropout = c.hidden_dropout = 0;
  if (!is_silu(json.text_or("hidden_act", "silu"))) json.expect_text("hidden_act", "silu");
  read_mamba_layers(json, c);
}

std::optional<std::string> read_layer_kinds(const ConfigJson& json) {
  for (const char* list : {"layers_block_type", "layer_types"}) {
    simdjson::dom::array types;
    if (!json.has(list)) continue;
    if (json.member(list).get(types)) json.refuse(json_quoted(list), ": expected a list");
    std::string pattern;
    for (const simdjson::dom::element entry : types) {
      std::string_view kind;
      if (entry.get(kind)) json.refuse(json_quoted(list), ": expected texts");
      if (kind == "linear_attention" || kind == "mamba")
        pattern += 'M';
      else if (kind == "full_attention" || kind == "attention")
        pattern += '*';
      else if (kind == "mlp")
        pattern += '-';
      else if (kind == "moe")
        pattern += 'E';
      else
        json.refuse(json_quoted(list), " has ", json_quoted(kind), ", which is not supported");
    }
    return pattern;
  }
  return {};
}

// A list of names, or, of the 4th generation, their letters.
static std::string read_pattern(const ConfigJson& json) {
  const std::optional<std::string> kinds = read_layer_kinds(json);
  return kinds ? *kinds : std::string(json.text("hybrid_override_pattern"));
}

// Sigmoids with biases choose experts, which shared ones are beside.
static void read_nemotron_experts(const ConfigJson& json, ModelConfig& c) {
  c.num_experts = json.size_or("n_routed_experts", 8);
  c.moe_router_topk = json.size_or("num_experts_per_tok", 2);
  c.moe_ffn_hidden_size = json.size_or("moe_intermediate_size", 7688);
  c.moe_shared_expert_intermediate_size = json.size_or("moe_shared_expert_intermediate_size", 7688);
  json.expect_number("n_shared_experts", 1);
  if (json.has("moe_latent_size")) c.moe_latent_size = json.size("moe_latent_size");
  read_sigmoid_router(json, c);
}

void read_nemotron_h(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  c.family = ModelFamily::mamba;
  c.hybrid_pattern = read_pattern(json);
  c.num_layers = std::ssize(c.hybrid_pattern);
  c.hidden_size = json.size("hidden_size");
  c.num_attention_heads = json.size("num_attention_heads");
  c.num_query_groups = json.size("num_key_value_heads");
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  c.kv_channels = json.size(json.has("head_dim") ? "head_dim" : "attention_head_dim");
  c.ffn_hidden_size = json.size("intermediate_size");
  c.mamba_num_heads = json.count_or("mamba_num_heads", 128);
  c.mamba_head_dim = json.size("mamba_head_dim");
  c.mamba_state_dim = json.size("ssm_state_size");
  c.max_position_embeddings = json.size("max_position_embeddings");
  c.attention_dropout = json.real_or("attention_dropout", 0);
  c.hidden_dropout = json.real_or("hidden_dropout", 0);
  c.squared_relu = true;
  c.bias_gelu_fusion = false;
  json.expect_text("mlp_hidden_act", "relu2");
  json.expect_text("mamba_hidden_act", "silu");
  for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
    json.expect_flag(name, false);
  if (json.has("sliding_window")) json.refuse("\"sliding_window\" is not supported");
  json.expect_number("num_nextn_predict_layers", 0);
  if (c.has_layer('E')) read_nemotron_experts(json, c);
  read_mamba_layers(json, c);
}

static void read_attention_layers(const ConfigJson& json, ModelConfig& c, std::int64_t layers) {
  constexpr const char* kName = "attn_layer_indices";
  if (!json.has(kName)) return;
  simdjson::dom::array indices;
  if (json.member(kName).get(indices)) json.refuse(json_quoted(kName), ": expected a list");
  for (const simdjson::dom::element entry : indices) {
    std::int64_t layer = 0;
    if (entry.get(layer) || layer < 0 || layer >= layers)
      json.refuse(json_quoted(kName), ": expected numbers of layers");
    c.hybrid_pattern[static_cast<std::size_t>(2 * layer)] = '*';
  }
}

// Each of its layers is two of ours: a mixer or attention, and an MLP.
void read_bamba(const ConfigJson& json, HuggingFaceConfig& config) {
  ModelConfig& c = config.model;
  constexpr std::int64_t kLayers = 1 << 14;
  c.family = ModelFamily::mamba;
  const std::int64_t layers =
      json.has("num_hidden_layers") ? json.number("num_hidden_layers", kLayers) : 32;
  for (std::int64_t i = 0; i < layers; ++i) c.hybrid_pattern += "M-";
  c.num_layers = 2 * layers;
  read_attention_layers(json, c, layers);
  c.vocab_size = json.size_or("vocab_size", 128000);
  c.hidden_size = json.size_or("hidden_size", 4096);
  c.ffn_hidden_size = json.size_or("intermediate_size", 14336);
  c.num_attention_heads = json.size_or("num_attention_heads", 32);
  c.num_query_groups = json.size_or("num_key_value_heads", 8);
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  if (json.has("head_dim")) c.kv_channels = json.size("head_dim");
  c.max_position_embeddings = json.size_or("max_position_embeddings", 262144);
  c.attention_dropout = json.real_or("attention_dropout", 0);
  c.hidden_dropout = 0;
  c.swiglu = true;
  c.bias_gelu_fusion = false;
  c.position_embedding_type = "rope";
  if (!is_silu(json.text_or("hidden_act", "silu"))) json.expect_text("hidden_act", "silu");
  for (const char* name : {"attention_bias", "mlp_bias"}) json.expect_flag(name, false);
  read_mamba_mixers(json, c, 128, 256);
  read_rope(json, config, 10000);
}

void read_mamba_mixers(const ConfigJson& json, ModelConfig& c, std::int64_t heads,
                       std::int64_t states) {
  json.expect_flag("mamba_proj_bias", false);
  json.expect_flag("mamba_conv_bias", true);
  json.expect_number("mamba_d_conv", kMambaConv);
  c.mamba_num_heads = json.count_or("mamba_n_heads", heads);
  c.mamba_state_dim = json.size_or("mamba_d_state", states);
  c.mamba_num_groups = json.size_or("mamba_n_groups", 1);
  std::string_view automatic;
  if (json.has("mamba_d_head") && json.member("mamba_d_head").get(automatic))
    c.mamba_head_dim = json.size("mamba_d_head");
  else
    c.mamba_head_dim = json.size_or("mamba_expand", 2) * c.hidden_size / c.mamba_num_heads;
  read_mamba_norms(json, c, "rms_norm_eps");
}

// --- Writing ------------------------------------------------------------------------------------

std::string_view mamba_type(const ModelConfig& c) {
  if (!c.is_hybrid()) return "mamba2";
  if (!c.swiglu) return "nemotron_h";
  // transformers turns half of a Bamba's channels, whatever its config.json says.
  const bool granite = c.has_layer('E') || !c.has_rope() || c.rotary_percent == 1 ||
                       c.embedding_mult != 1 || c.residual_mult != 1 || c.logit_scale != 1 ||
                       c.softmax_scale;
  return granite ? "granitemoehybrid" : "bamba";
}

void check_mamba_decoder(const ModelConfig& c) {
  if (c.has_qkv_bias() || c.qk_layernorm || !c.window_size.empty())
    refuse_setting("a hybrid of Mamba layers with biases, --qk-layernorm or --window-size");
  if (c.mamba_inner() % c.hidden_size != 0)
    refuse_setting("a hybrid of Mamba layers with channels that are no multiple of --hidden-size");
  if (c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse_setting("a hybrid of Mamba layers with --swiglu and --kv-channels");
}

// Bamba's layers are a mixer or attention, and behind it an MLP.
static void check_bamba(const ModelConfig& c) {
  const std::string& pattern = c.hybrid_pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if ((pattern[i] == '-') != (i % 2 == 1) || pattern.size() % 2 == 1)
      refuse_setting(
          "a hybrid of Mamba layers with --swiglu where MLPs are not every second layer");
  if (c.position_embedding_type != "rope" || c.rotary_interleaved || c.rotary_percent != 0.5)
    refuse_setting("a hybrid of Mamba layers with --swiglu without plain rotary positions");
  check_mamba_decoder(c);
}

// A softmax chooses no expert of theirs, and one shared expert is beside them.
static void check_nemotron_experts(const ModelConfig& c) {
  if (c.moe_router_score_function != "sigmoid")
    refuse_setting("a hybrid of Mamba layers and experts with --squared-relu and a softmax");
  check_sigmoid_router(c);
  if (c.moe_shared_expert_intermediate_size == 0 || c.moe_shared_expert_gate)
    refuse_setting(
        "a hybrid of Mamba layers and experts with --squared-relu without shared experts, or with "
        "a gate of theirs");
}

void check_mamba(const ModelConfig& c) {
  if (c.normalization != "RMSNorm" || c.apply_layernorm_1p)
    refuse_setting("Mamba layers with norms that are not plain RMSNorm");
  if (c.norm_epsilon != 1e-5)
    refuse_setting("Mamba layers with a --norm-epsilon that is not 1e-5, which gated norms have");
  if (c.has_layer('+')) refuse_setting("a hybrid of Mamba layers with --multi-latent-attention");
  if (mamba_type(c) == "granitemoehybrid") return check_granite_hybrid(c);
  if (const char* const flag = c.later_setting()) refuse_setting(flag);
  if (mamba_type(c) == "bamba") return check_bamba(c);
  if (c.position_embedding_type != "none")
    refuse_setting("Mamba layers without --position-embedding-type none");
  if (!c.is_hybrid()) {
    if (c.mamba_inner() % c.hidden_size != 0)
      refuse_setting("Mamba-2 with channels that are no multiple of --hidden-size");
    return;
  }
  if (!c.squared_relu) refuse_setting("a hybrid of Mamba layers without --squared-relu");
  if (c.has_layer('E')) check_nemotron_experts(c);
  if (c.has_qkv_bias() || c.qk_layernorm || !c.window_size.empty())
    refuse_setting("a hybrid of Mamba layers with biases, --qk-layernorm or --window-size");
}

// Transformers computes sizes of mixers of a model that has none, too: one head has all channels.
static MambaConfig written_mixers(const ModelConfig& c) {
  MambaConfig mixers = c;
  if (mixers.mamba_num_heads == 0) {
    mixers.mamba_num_heads = mixers.mamba_num_groups = 1;
    mixers.mamba_head_dim = 2 * c.hidden_size;
  }
  return mixers;
}

static void write_mamba_layers(JsonWriter& json, const ModelConfig& c) {
  json.member("n_groups", written_mixers(c).mamba_num_groups);
  json.member("conv_kernel", kMambaConv);
  json.member("layer_norm_epsilon", c.norm_epsilon);
  json.member("use_bias", false).member("use_conv_bias", true);
}

void write_mamba2(JsonWriter& json, const ModelConfig& c) {
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
  const MambaConfig mixers = written_mixers(c);
  json.member("mamba_num_heads", mixers.mamba_num_heads);
  json.member("mamba_head_dim", mixers.mamba_head_dim);
  json.member("ssm_state_size", c.mamba_state_dim).member("mamba_hidden_act", "silu");
  json.member("attention_dropout", c.attention_dropout).member("hidden_dropout", c.hidden_dropout);
  for (const char* name : {"attention_bias", "mlp_bias", "mamba_proj_bias"})
    json.member(name, false);
  write_mamba_layers(json, c);
  if (!c.has_layer('E')) return;
  json.member("n_routed_experts", c.num_experts).member("n_shared_experts", 1);
  json.member("num_experts_per_tok", c.moe_router_topk);
  json.member("moe_intermediate_size", c.expert_ffn());
  json.member("moe_shared_expert_intermediate_size", c.moe_shared_expert_intermediate_size);
  if (c.moe_latent_size > 0) json.member("moe_latent_size", c.moe_latent_size);
  write_sigmoid_router(json, c);
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
  write_mamba_mixers(json, c);
  json.member("attention_dropout", c.attention_dropout);
  for (const char* name : {"attention_bias", "mlp_bias"}) json.member(name, false);
  write_rope(json, c, {});
}

void write_mamba_mixers(JsonWriter& json, const ModelConfig& c) {
  const MambaConfig mixers = written_mixers(c);
  json.member("mamba_n_heads", mixers.mamba_num_heads);
  json.member("mamba_d_head", mixers.mamba_head_dim);
  json.member("mamba_d_state", c.mamba_state_dim);
  json.member("mamba_n_groups", mixers.mamba_num_groups);
  json.member("mamba_expand", mixers.mamba_inner() / c.hidden_size);
  json.member("mamba_d_conv", kMambaConv);
  json.member("mamba_conv_bias", true).member("mamba_proj_bias", false);
  json.member("rms_norm_eps", c.norm_epsilon);
}

}  // namespace mt
