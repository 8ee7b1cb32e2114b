#include "model/config/yarn.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/json.h"
#include "model/config/model_config.h"

namespace mt {

std::vector<double> Yarn::ramp(double channels, double base) const {
  const auto channel = [&](double turns) {
    return channels * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = channel(beta_fast), high = channel(beta_slow);
  if (rounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, channels - 1);
  if (low == high) high += 0.001;  // as there, so that the ramp has a width
  std::vector<double> ramp;
  for (double i = 0; i < channels / 2; ++i)
    ramp.push_back(std::clamp((i - low) / (high - low), 0.0, 1.0));
  return ramp;
}

double Yarn::magnitude(double m) const { return factor > 1 ? 0.1 * m * std::log(factor) + 1 : 1; }

std::string frequency_factors_text(const std::vector<double>& factors) {
  std::string list;
  for (const double factor : factors) {
    if (!list.empty()) list += ',';
    list += JsonWriter().value(factor).text();
  }
  return list;
}

std::string frequency_factors_text(const Yarn& yarn, double channels, double base) {
  std::vector<double> factors = yarn.ramp(channels, base);
  for (double& one : factors) one = 1 / (one / yarn.factor + 1 - one);
  return frequency_factors_text(factors);
}

void take_plain_yarn(ModelConfig& c, const PlainYarn& plain) {
  constexpr const char* kYarn = "--position-embedding-type yarn";
  if (c.multi_latent_attention)
    fail(Exit::bad_config, kYarn,
         ": --multi-latent-attention has YaRN by --rotary-scaling-factor alone");
  if (c.rotary_scaling_factor < 1)
    fail(Exit::bad_config, "--rotary-scaling-factor ", c.rotary_scaling_factor,
         ": expected at least 1 for ", kYarn);
  if (c.use_rope_scaling || c.rotary_interpolation)
    fail(Exit::bad_config, kYarn, ": not with --use-rope-scaling or ",
         "--rotary-seq-len-interpolation-factor, which scale positions, too");
  const Yarn yarn{.factor = c.rotary_scaling_factor,
                  .original = static_cast<double>(plain.original.value_or(4096)),
                  .beta_fast = c.yarn_beta_fast,
                  .beta_slow = c.yarn_beta_slow,
                  .rounds = plain.rounds};
  const double mscale = c.mscale;
  static_cast<LatentConfig&>(c) = {};
  c.position_embedding_type = "rope";
  c.rope_frequency_factors.clear();
  c.rope_attention_factor = 1;
  if (yarn.factor == 1 || c.hidden_size == 0 || c.num_attention_heads == 0) return;
  c.rope_frequency_factors =
      frequency_factors_text(yarn, static_cast<double>(c.rotary_dim()), c.rotary_base);
  c.rope_attention_factor =
      yarn.magnitude(mscale) / yarn.magnitude(plain.mscale_all_dim.value_or(0));
}

}  // namespace mt
