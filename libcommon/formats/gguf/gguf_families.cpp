#include "formats/gguf/gguf_families.h"

#include <cmath>

#include "model/config/model_config.h"
#include "nn/mlp.h"

namespace mt {
namespace {

constexpr std::int64_t kLayersOf27B = 46, kLayersOfThird27B = 62;
constexpr double kBaseOfWindows = 10000, kEpsilonOfOlmo = 1e-5;

// Which layers have no window, or do not turn: every so manyth.
std::int64_t period_of(std::string_view name) {
  return name == "gemma2" ? 2 : name == "gemma3" ? 6 : 4;
}
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

// An OLMo's config.json says neither.
void check_olmo_file(const GgufReader& file) {
  const std::string bound = "olmo.attention.clamp_kqv",
                    epsilon = "olmo.attention.layer_norm_epsilon";
  const auto number = [&](const std::string& key) { return file.value(key).as_real(key); };
  if (file.find_value(bound) != nullptr && number(bound) > 0)
    fail(Exit::bad_config, file.path(), ": ", bound, ": is ", number(bound),
         ", expected 0: no bound is known of queries");
  if (static_cast<float>(number(epsilon)) != static_cast<float>(kEpsilonOfOlmo))
    fail(Exit::bad_config, file.path(), ": ", epsilon, ": is ", number(epsilon), ", expected ",
         kEpsilonOfOlmo);
}

}  // namespace

void check_gguf_family(const ModelConfig& c, const GgufArchitecture& architecture) {
  const std::string_view name = architecture.name;
  if (is_gemma2_or_3(name)) check_gemma(c, architecture);
  if (name == "cohere2") check_windows(c, architecture);
  for (std::int64_t layer = 0; name == "smollm3" && layer < c.num_layers; ++layer)
    if (c.turns(layer) != ((layer + 1) % period_of(name) != 0) || c.window(layer) >= 0)
      refuse(architecture, "--no-rope-freq");
  if (!architecture.has_output && c.untie_embeddings_and_output_weights)
    refuse(architecture, "--untie-embeddings-and-output-weights");
  if ((name == "stablelm" || name == "phi2") && !c.untie_embeddings_and_output_weights)
    fail(Exit::bad_config, "--untie-embeddings-and-output-weights: llama.cpp's ", name,
         " needs it");
  const bool by_tanh = name == "phi2" || name == "starcoder2";
  if (by_tanh && c.activation() != Activation::gelu_tanh)
    fail(Exit::bad_config, "llama.cpp's ", name, " has GeLU by tanh");
  if (name == "phi2" && c.qk_layernorm)
    fail(Exit::bad_config, "--qk-layernorm: llama.cpp's phi2 has no norms of heads");
  if ((name == "arcee" || name == "ernie4_5") && c.add_bias_linear)
    refuse(architecture, "--disable-bias-linear");
  if (name == "olmo" && c.norm_epsilon != kEpsilonOfOlmo) refuse(architecture, "--norm-epsilon");
  if ((name == "command-r" || name == "cohere2") && c.rotary_interpolation)
    refuse(architecture, "--rotary-seq-len-interpolation-factor");
}

void add_gguf_family(GgufKeyValues& to, const ModelConfig& c,
                     const GgufArchitecture& architecture) {
  const std::string_view name = architecture.name;
  const auto real = [&](const char* key, double value) {
    to.real(concat(name, ".", key), static_cast<float>(value));
  };
  const auto size = [&](const char* key, std::int64_t value) {
    to.integer(concat(name, ".", key), static_cast<std::uint32_t>(value));
  };
  if (is_gemma2_or_3(name) || name == "phi3" || name == "cohere2")
    size("attention.sliding_window", c.tokens_before() + 1);
  if (name == "gemma2") {
    real("attn_logit_softcapping", c.attn_logit_softcapping);
    real("final_logit_softcapping", c.final_logit_softcapping);
  }
  if (name == "phi3") size("rope.scaling.original_context_length", c.max_position_embeddings);
  if (name == "granite") {
    real("embedding_scale", c.embedding_mult);
    real("residual_scale", c.residual_mult);
    real("attention.scale", c.score_scale());
    real("logit_scale", 1 / c.logit_scale);
  }
  if (name != "command-r" && name != "cohere2") return;
  real("logit_scale", c.logit_scale);
  to.text(concat(name, ".rope.scaling.type"), "none");
}

void read_gguf_family(JsonWriter& json, const GgufReader& file,
                      const GgufArchitecture& architecture, const GgufSizes& sizes) {
  const std::string_view name = architecture.name;
  const auto key_of = [&](const char* key) { return concat(name, ".", key); };
  const auto add = [&](const char* member, const char* key) {
    json.key(member).raw(file.value(key_of(key)).json());
  };
  const auto add_null = [&](const char* member) { json.key(member).null(); };
  const auto add_each = [&](const char* member, const auto& value) {
    json.key(member).begin_array();
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer)
      json.value(value((layer + 1) % period_of(name) != 0));
    json.end_array();
  };
  if (is_gemma2_or_3(name) || name == "cohere2") {
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
    const std::string key = key_of("attention.sliding_window");
    if (file.find_value(key) != nullptr && file.value(key).as_integer(key) > 0)
      add("sliding_window", "attention.sliding_window");
    else
      add_null("sliding_window");
  }
  if (name == "granite") {
    add("embedding_multiplier", "embedding_scale");
    add("residual_multiplier", "residual_scale");
    add("attention_multiplier", "attention.scale");
    add("logits_scaling", "logit_scale");
  }
  if (name == "olmo") check_olmo_file(file);
  if (name == "smollm3") add_each("no_rope_layers", [](bool turns) { return std::int64_t{turns}; });
  if (name == "command-r" || name == "cohere2") add("logit_scale", "logit_scale");
}

}  // namespace mt
