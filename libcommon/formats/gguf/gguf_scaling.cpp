#include "formats/gguf/gguf_scaling.h"

#include <algorithm>
#include <optional>

#include "base/json_object.h"
#include "model/config/model_config.h"
#include "model/config/yarn.h"

namespace mt {
namespace {

bool has_tensors_of_factors(std::string_view architecture) {
  return architecture == "llama" || architecture == "phi3" || architecture == "exaone4";
}

// The YaRN that a config.json names, where it makes the model's factors by llama.cpp's rule.  That
// rounds the ends of the ramp, and so does a gpt-oss there, whose class does not.
std::optional<Yarn> yarn_of(const ModelConfig& c, std::string_view architecture,
                            const std::string& json) {
  if (c.rope_frequency_factors.empty()) return {};
  simdjson::dom::parser parser;
  const JsonObject config(parser.parse(json).value(), "config.json");
  if (!config.has("rope_scaling")) return {};
  const JsonObject rope = config.object("rope_scaling");
  if (rope.text_or("rope_type", rope.text_or("type", "default")) != "yarn") return {};
  const auto real_or = [&](const char* name, double other) {
    return rope.has(name) ? rope.real(name) : other;
  };
  const double original =
      real_or("original_max_position_embeddings", static_cast<double>(c.max_position_embeddings));
  const Yarn yarn{
      .factor = real_or("factor", static_cast<double>(c.max_position_embeddings) / original),
      .original = original,
      .beta_fast = real_or("beta_fast", 32),
      .beta_slow = real_or("beta_slow", 1),
      .rounds = architecture != "gpt-oss"};
  const bool same =
      c.rope_attention_factor == yarn.magnitude(1) &&
      c.rope_frequency_factors ==
          frequency_factors_text(yarn, static_cast<double>(c.rotary_dim()), c.rotary_base);
  return same ? std::optional(yarn) : std::nullopt;
}

}  // namespace

std::vector<std::string> names_of_factors(const ModelConfig& c, std::string_view architecture) {
  if (!has_frequency_factors(c) || !has_tensors_of_factors(architecture)) return {};
  if (architecture != "phi3") return {kGgufFrequencies};
  return {std::begin(kGgufFactors), std::end(kGgufFactors)};
}

void check_gguf_scaling(const ModelConfig& c, const GgufArchitecture& architecture,
                        const std::string& json) {
  if (!has_frequency_factors(c) || has_tensors_of_factors(architecture.name)) return;
  if (!yarn_of(c, architecture.name, json))
    fail(Exit::bad_config, c.use_rope_scaling ? "--use-rope-scaling" : "--rope-frequency-factors",
         ": llama.cpp has that for Llamas, Phi-3 and EXAONE 4 only, and of ", architecture.name,
         " YaRN with its usual attention_factor");
}

void add_gguf_scaling(GgufSettingsWriter& to, const ModelConfig& c,
                      const GgufArchitecture& architecture, const std::string& json) {
  if (c.rotary_interpolation) {
    to.text("rope.scaling.type", "linear");
    to.real("rope.scaling.factor", *c.rotary_interpolation);
  }
  if (!has_tensors_of_factors(architecture.name)) {
    const std::optional<Yarn> yarn = yarn_of(c, architecture.name, json);
    if (!yarn) return;
    to.text("rope.scaling.type", "yarn");
    to.real("rope.scaling.factor", yarn->factor);
    to.size("rope.scaling.original_context_length", static_cast<std::int64_t>(yarn->original));
    to.real("rope.scaling.yarn_beta_fast", yarn->beta_fast);
    to.real("rope.scaling.yarn_beta_slow", yarn->beta_slow);
  } else if (c.rope_attention_factor != 1) {
    to.real("rope.scaling.attn_factor", c.rope_attention_factor);
  }
}

}  // namespace mt
