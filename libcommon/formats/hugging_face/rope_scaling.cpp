#include "formats/hugging_face/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/config/model_config.h"
#include "model/config/yarn.h"

namespace mt {

double RopeScaling::real_or(const char* name, double other) const {
  return rope_.has(name) ? rope_.real(name) : other;
}

std::int64_t RopeScaling::original_positions() const {
  constexpr const char* kName = "original_max_position_embeddings";
  const double positions = config_.has(kName)                            ? config_.real(kName)
                           : config_.text_or("model_type", "") == "phi3" ? 4096  // its class's
                           : rope_.has(kName)                            ? rope_.real(kName)
                                              : double(model_.max_position_embeddings);
  if (!(positions >= 1 && positions <= 0x1p31))
    rope_.refuse("\"", kName, "\" is ", positions, ", expected at least 1");
  return static_cast<std::int64_t>(positions);
}

double RopeScaling::factor_or_ratio() const {
  const double ratio = double(model_.max_position_embeddings) / double(original_positions());
  const double factor = real_or("factor", ratio);
  if (!(factor > 0)) rope_.refuse("\"factor\" is ", factor, ", expected more than 0");
  return factor;
}

bool RopeScaling::is_llama3() const {
  return real_or("low_freq_factor", 0) == 1 && real_or("high_freq_factor", 0) == 4 &&
         original_positions() == 8192;
}

void RopeScaling::set_llama3(ModelConfig& model) const {
  const double factor = rope_.real("factor"), low = rope_.real("low_freq_factor"),
               high = rope_.real("high_freq_factor");
  if (!(factor > 0 && high > low && low > 0))
    rope_.refuse("expected factors above 0, \"low_freq_factor\" below \"high_freq_factor\"");
  std::vector<double> factors;
  for (const double frequency : model.rotary_frequencies()) {
    const double turns = double(original_positions()) * frequency / (2 * std::numbers::pi);
    const double t = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    factors.push_back(1 / ((1 - t) / factor + t));
  }
  model.rope_frequency_factors = frequency_factors_text(factors);
}

void RopeScaling::set_yarn(ModelConfig& model) const {
  const auto given = [&](const char* name, double usual) {
    const double value = real_or(name, usual);
    return value == 0 ? usual : value;
  };
  const Yarn yarn{.factor = factor_or_ratio(),
                  .original = double(original_positions()),
                  .beta_fast = given("beta_fast", 32),
                  .beta_slow = given("beta_slow", 1),
                  .rounds = rope_.flag_or("truncate", true)};
  const double mscale = real_or("mscale", 0), of_all = real_or("mscale_all_dim", 0);
  model.rope_attention_factor =
      real_or("attention_factor", mscale != 0 && of_all != 0
                                      ? yarn.magnitude(mscale) / yarn.magnitude(of_all)
                                      : yarn.magnitude(1));
  model.rope_frequency_factors =
      frequency_factors_text(yarn, double(model.rotary_dim()), model.rotary_base);
}

std::vector<double> RopeScaling::factors(const char* name) const {
  simdjson::dom::array list;
  std::vector<double> factors;
  if (rope_.member(name).get(list)) rope_.refuse(json_quoted(name), ": expected a list");
  for (const simdjson::dom::element entry : list) {
    double factor = 0;
    if (entry.get(factor) || !(factor > 0)) rope_.refuse(json_quoted(name), ": expected numbers");
    factors.push_back(factor);
  }
  if (std::ssize(factors) != model_.rotary_dim() / 2)
    rope_.refuse(json_quoted(name), ": are ", factors.size(), ", expected ",
                 model_.rotary_dim() / 2);
  return factors;
}

void RopeScaling::set_longrope(ModelConfig& model) const {
  const double factor = factor_or_ratio();
  const double usual =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(double(original_positions())));
  model.rope_attention_factor = real_or("attention_factor", usual);
  model.rope_frequency_factors = frequency_factors_text(factors("short_factor"));
}

}  // namespace mt
