#include "formats/gguf/gguf_families.h"

#include <algorithm>
#include <cmath>

#include "formats/hugging_face/config_families.h"
#include "model/config/model_config.h"
#include "nn/mlp.h"

namespace mt {
namespace {

constexpr std::int64_t kLayersOf27B = 46, kLayersOfThird27B = 62;
constexpr double kBaseOfWindows = 10000, kEpsilonOfOlmo = 1e-5;

// A file of an EXAONE 4 of so many layers has windows, and no other.
constexpr std::int64_t kLayersOfWindows = 64;
constexpr double kClamp = 7;  // of gpt-oss's gates

// Which layers have no window, or do not turn: every so manyth.
std::int64_t period_of(std::string_view name) {
  return name == "gemma2" || name == "gpt-oss" ? 2 : name == "gemma3" ? 6 : 4;
}
// Whose layers have windows where the model has one.
bool may_have_windows(std::string_view name, std::int64_t layers) {
  return name == "gpt-oss" || name == "olmo2" || (name == "exaone4" && layers == kLayersOfWindows);
}
// Whose attention has as many channels as the model.
bool is_square(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "chatglm", "cohere2", "command-r", "falcon", "gptneox",  "nemotron", "olmo",      "olmo2",
      "olmoe",   "phi2",    "phi3",      "qwen2",  "qwen2moe", "stablelm", "starcoder2"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}
bool has_gelu(std::string_view name) { return name == "gptneox" || name == "falcon"; }
bool is_gemma2_or_3(std::string_view name) { return name == "gemma2" || name == "gemma3"; }

// By what a Gemma multiplies scores: its largest by the width that its heads would have.
double score_scale_of(std::string_view name, const GgufSizes& sizes) {
  const bool largest = sizes.layers == (name == "gemma2" ? kLayersOf27B : kLayersOfThird27B);
  const std::int64_t width = largest ? sizes.hidden_size / sizes.heads : sizes.head_dim;
  return 1 / std::sqrt(static_cast<double>(width));
}

[[noreturn]] void refuse(const GgufArchitecture& architecture, const char* flag) {
  fail(Exit::bad_config, flag, ": llama.cpp computes ", architecture.name, " with another");
}

void check_windows(const ModelConfig& c, const GgufArchitecture& architecture) {
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    if ((c.window(layer) >= 0) != ((layer + 1) % period_of(architecture.name) != 0))
      refuse(architecture, "--window-attn-skip-freq");
}

void check_gemma(const ModelConfig& c, const GgufArchitecture& architecture) {
  const GgufSizes sizes{c.num_layers, c.hidden_size, c.num_attention_heads, c.head_dim()};
  if (c.score_scale() != score_scale_of(architecture.name, sizes))
    refuse(architecture, "--softmax-scale");
  const bool second = architecture.name == "gemma2";
  if ((c.attn_logit_softcapping != 0) != second) refuse(architecture, "--attn-logit-softcapping");
  if ((c.final_logit_softcapping != 0) != second) refuse(architecture, "--final-logit-softcapping");
  check_windows(c, architecture);
  if (!second && c.rotary_base_window != kBaseOfWindows)
    refuse(architecture, "--rotary-base-window");
}

// Layers with a window turn as the others, but that nothing scales them, and those of an EXAONE 4
// that have none where others do, not at all.
void check_own_windows(const ModelConfig& c, const GgufArchitecture& architecture) {
  const std::string_view name = architecture.name;
  const bool windows = may_have_windows(name, c.num_layers) && c.tokens_before() >= 0;
  if (windows)
    check_windows(c, architecture);
  else if (c.tokens_before() >= 0 || name == "gpt-oss")
    refuse(architecture, "--window-size");
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    if (c.turns(layer) != (name != "exaone4" || !windows || c.window(layer) >= 0))
      refuse(architecture, "--no-rope-freq");
  if (c.rotary_base_window != 0 ? name != "olmo2" || c.rotary_base_window != c.rotary_base
                                : name == "olmo2" && windows && has_frequency_factors(c))
    refuse(architecture, "--rotary-base-window");
}

// Of these llama.cpp's code has a form alone, or a file no place for another.
void check_layer_norm_family(const ModelConfig& c, const GgufArchitecture& architecture) {
  const bool falcon = architecture.name == "falcon";
  if (c.activation() != Activation::gelu_erf)
    fail(Exit::bad_config, "llama.cpp's ", architecture.name, " has GeLU alone");
  if (falcon && !c.parallel_block) refuse(architecture, "--parallel-block");
  if (c.add_bias_linear == falcon) refuse(architecture, "--disable-bias-linear");
  if (!falcon && !c.attention_bias)
    fail(Exit::bad_config, "--disable-bias-linear: llama.cpp's ", architecture.name,
         " has biases of attention, too");
}

// An OLMo's config.json does not say it.
void check_olmo_file(const GgufReader& file) {
  const std::string key = "olmo.attention.layer_norm_epsilon";
  const double epsilon = file.value(key).as_real(key);
  if (static_cast<float>(epsilon) != static_cast<float>(kEpsilonOfOlmo))
    fail(Exit::bad_config, file.path(), ": ", key, ": is ", epsilon, ", expected ", kEpsilonOfOlmo);
}

}  // namespace

void check_gguf_family(const ModelConfig& c, const GgufArchitecture& architecture) {
  const std::string_view name = architecture.name;
  if (c.clip_qkv != 0 && name != "olmo") refuse(architecture, "--clip-qkv");
  if (c.qk_layernorm_per_head) refuse(architecture, "--qk-layernorm-per-head");
  if (is_gemma2_or_3(name)) check_gemma(c, architecture);
  if (name == "cohere2") check_windows(c, architecture);
  for (std::int64_t layer = 0; name == "smollm3" && layer < c.num_layers; ++layer)
    if (c.turns(layer) != ((layer + 1) % period_of(name) != 0) || c.window(layer) >= 0)
      refuse(architecture, "--no-rope-freq");
  if (!architecture.has_output && c.untie_embeddings_and_output_weights)
    refuse(architecture, "--untie-embeddings-and-output-weights");
  if (is_square(name) && c.head_dim() * c.num_attention_heads != c.hidden_size)
    refuse(architecture, "--kv-channels");
  if (name == "olmo2" || name == "exaone4" || name == "gpt-oss" || name == "dots1")
    check_own_windows(c, architecture);
  if (name == "gpt-oss" && c.activation_func_clamp_value != kClamp)
    refuse(architecture, "--activation-func-clamp-value");
  if ((name == "dots1" || name == "olmoe") && c.kv_heads() != c.num_attention_heads)
    refuse(architecture, "--group-query-attention");
  if (has_gelu(name)) check_layer_norm_family(c, architecture);
  if (architecture.model_type == "internlm3" && c.has_qkv_bias() != c.add_bias_linear)
    refuse(architecture, "--add-qkv-bias");
  const bool by_tanh = name == "phi2" || name == "starcoder2";
  if (by_tanh && c.activation() != Activation::gelu_tanh)
    fail(Exit::bad_config, "llama.cpp's ", name, " has GeLU by tanh");
  if (name == "phi2" && c.qk_layernorm)
    fail(Exit::bad_config, "--qk-layernorm: llama.cpp's phi2 has no norms of heads");
  const bool plain = name == "arcee" || name == "ernie4_5" || name == "seed_oss";
  if (plain ? c.add_bias_linear : name == "starcoder2" && !c.add_bias_linear)
    refuse(architecture, "--disable-bias-linear");
  if (name == "olmo" && c.norm_epsilon != kEpsilonOfOlmo) refuse(architecture, "--norm-epsilon");
  if ((name == "command-r" || name == "cohere2") && c.rotary_interpolation)
    refuse(architecture, "--rotary-seq-len-interpolation-factor");
}

void add_gguf_family(GgufSettingsWriter& to, const ModelConfig& c,
                     const GgufArchitecture& architecture) {
  const std::string_view name = architecture.name;
  const bool windows = may_have_windows(name, c.num_layers) && c.tokens_before() >= 0;
  if (is_gemma2_or_3(name) || name == "phi3" || name == "cohere2" || windows)
    to.size("attention.sliding_window", c.tokens_before() + 1);
  if (name == "gemma2") {
    to.real("attn_logit_softcapping", c.attn_logit_softcapping);
    to.real("final_logit_softcapping", c.final_logit_softcapping);
  }
  if (name == "phi3") to.size("rope.scaling.original_context_length", c.max_position_embeddings);
  if (name == "granite" || name == "granitemoe") {
    to.real("embedding_scale", c.embedding_mult);
    to.real("residual_scale", c.residual_mult);
    to.real("attention.scale", c.score_scale());
    to.real("logit_scale", 1 / c.logit_scale);
  }
  if (name == "gptneox") to.flag("use_parallel_residual", c.parallel_block);
  if (name == "olmo" && c.clip_qkv != 0) to.real("attention.clamp_kqv", c.clip_qkv);
  if (name == "falcon") to.text("tensor_data_layout", "jploski");
  if (name != "command-r" && name != "cohere2") return;
  to.real("logit_scale", c.logit_scale);
  to.text("rope.scaling.type", "none");
}

std::string gguf_family_warning(const ModelConfig& c, const GgufArchitecture& architecture) {
  const std::int64_t window = c.tokens_before() + 1;
  if (architecture.name == "phi3" && window > 0 && window < c.max_position_embeddings)
    return concat("llama.cpp's phi3 has no windows: of more than ", window,
                  " tokens it computes otherwise");
  if (!has_gelu(architecture.name)) return {};
  return concat("llama.cpp computes the GeLU of ", architecture.name, " by tanh");
}

namespace {

// Says how many heads and what norms a Falcon has, as its config.json does.
void read_falcon(JsonWriter& json, const GgufSettings& file, const GgufSizes& sizes) {
  const std::int64_t groups = file.size_or("attention.head_count_kv", sizes.heads);
  const bool norms = file.file().find("blk.0.attn_norm_2.weight") != nullptr,
             second = norms || !(groups == 1 || groups == sizes.heads);
  json.member("ffn_hidden_size", file.size("feed_forward_length")).member("num_kv_heads", groups);
  json.member("alibi", false).member("new_decoder_architecture", second);
  json.member("multi_query", groups == 1).member("parallel_attn", true).member("bias", false);
  if (second) json.member("num_ln_in_parallel_attn", norms ? 2 : 1);
}

// Where a file has its own list of layers with windows, it is to be llama.cpp's.
void check_pattern(const GgufSettings& file, std::string_view name, std::int64_t layers) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  if (!file.has(kKey)) return;
  const std::vector<std::int64_t> pattern = file.value(kKey).as_numbers(file.where(kKey));
  const bool number = pattern.size() == 1 && layers != 1;
  bool same = number ? pattern[0] == period_of(name) : std::ssize(pattern) == layers;
  for (std::size_t i = 0; !number && same && i < pattern.size(); ++i)
    same = (pattern[i] != 0) == ((static_cast<std::int64_t>(i) + 1) % period_of(name) != 0);
  if (!same)
    fail(Exit::bad_config, file.where(kKey), ": expected windows of all but every ",
         period_of(name), "th layer");
}

}  // namespace

void read_gguf_family(JsonWriter& json, const GgufSettings& file,
                      const GgufArchitecture& architecture, const GgufSizes& sizes) {
  const std::string_view name = architecture.name;
  const auto add = [&](const char* member, const char* key) {
    json.key(member).raw(file.value(key).json());
  };
  const auto add_null = [&](const char* member) { json.key(member).null(); };
  const auto add_each = [&](const char* member, const auto& value) {
    json.key(member).begin_array();
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer)
      json.value(value((layer + 1) % period_of(name) != 0));
    json.end_array();
  };
  const bool windows =
      may_have_windows(name, sizes.layers) && file.size_or("attention.sliding_window", 0) > 0;
  if (is_gemma2_or_3(name) || name == "cohere2" || windows) {
    check_pattern(file, name, sizes.layers);
    add("sliding_window", "attention.sliding_window");
    add_each("layer_types", [](bool window) {
      return window ? std::string_view("sliding_attention") : std::string_view("full_attention");
    });
  }
  if (is_gemma2_or_3(name)) {
    const double scale = score_scale_of(name, sizes);
    json.member("query_pre_attn_scalar", std::llround(1 / (scale * scale)));
    if (name == "gemma2") {
      add("attn_logit_softcapping", "attn_logit_softcapping");
      add("final_logit_softcapping", "final_logit_softcapping");
    } else {
      json.member("rope_local_base_freq", kBaseOfWindows);
    }
  }
  if (name == "phi3") {
    if (file.size_or("attention.sliding_window", 0) > 0)
      add("sliding_window", "attention.sliding_window");
    else
      add_null("sliding_window");
  }
  if (name == "granite" || name == "granitemoe") {
    add("embedding_multiplier", "embedding_scale");
    add("residual_multiplier", "residual_scale");
    add("attention_multiplier", "attention.scale");
    add("logits_scaling", "logit_scale");
  }
  if (name == "exaone4" && !windows) add_null("sliding_window");
  if (has_attention_bias(architecture.model_type))
    json.member("attention_bias", file.file().find("blk.0.attn_q.bias") != nullptr ||
                                      file.file().find("blk.0.attn_qkv.bias") != nullptr);
  if (name == "gpt-oss") json.member("attention_bias", true);
  if (name == "glm4moe")
    json.member("use_qk_norm", file.file().find("blk.0.attn_q_norm.weight") != nullptr);
  if (name == "gptneox") {
    json.member("use_parallel_residual", file.flag_or("use_parallel_residual", true));
    json.member("rotary_pct", rotary_percent_of(file.size("rope.dimension_count"), sizes.head_dim));
    if (file.has("rope.freq_base")) add("rotary_emb_base", "rope.freq_base");
  }
  if (name == "falcon") read_falcon(json, file, sizes);
  if (name == "olmo") {
    check_olmo_file(file.file());
    constexpr const char* kBound = "attention.clamp_kqv";
    if (file.has(kBound) && file.value(kBound).as_real(kBound) > 0) add("clip_qkv", kBound);
  }
  if (name == "smollm3") add_each("no_rope_layers", [](bool turns) { return std::int64_t{turns}; });
  if (name == "command-r" || name == "cohere2") add("logit_scale", "logit_scale");
}

}  // namespace mt
