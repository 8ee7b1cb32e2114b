#include "model/config/latent_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace mt {

// M(m) of a factor.
static double magnitude(double factor, double m) {
  return factor > 1 ? 0.1 * m * std::log(factor) + 1 : 1;
}

void LatentConfig::check() const {
  if (!multi_latent_attention) {
    const LatentConfig usual;
    const char* const given =
        q_lora_rank                                            ? "--q-lora-rank"
        : kv_lora_rank != usual.kv_lora_rank                   ? "--kv-lora-rank"
        : qk_head_dim != usual.qk_head_dim                     ? "--qk-head-dim"
        : qk_pos_emb_head_dim != usual.qk_pos_emb_head_dim     ? "--qk-pos-emb-head-dim"
        : v_head_dim != usual.v_head_dim                       ? "--v-head-dim"
        : rotary_scaling_factor != usual.rotary_scaling_factor ? "--rotary-scaling-factor"
        : mscale != usual.mscale                               ? "--mscale"
        : mscale_all_dim != usual.mscale_all_dim               ? "--mscale-all-dim"
        : original_max_position_embeddings       ? "--original-max-position-embeddings"
        : yarn_beta_fast != usual.yarn_beta_fast ? "--yarn-beta-fast"
        : yarn_beta_slow != usual.yarn_beta_slow ? "--yarn-beta-slow"
                                                 : nullptr;
    if (given != nullptr) fail(Exit::bad_config, given, ": needs --multi-latent-attention");
    return;
  }
  if (qk_pos_emb_head_dim % 2 != 0)
    fail(Exit::bad_config, "--qk-pos-emb-head-dim ", qk_pos_emb_head_dim,
         ": expected an even number, whose pairs turn");
}

std::vector<double> LatentConfig::latent_frequencies(double base, std::int64_t positions) const {
  const auto channels = static_cast<double>(qk_pos_emb_head_dim),
             original = static_cast<double>(original_max_position_embeddings.value_or(positions)),
             ln_base = std::log(base);
  const auto channel = [&](double turns) {
    return channels * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * ln_base);
  };
  const double low = std::max(std::floor(channel(yarn_beta_fast)), 0.0);
  double high = std::min(std::ceil(channel(yarn_beta_slow)), channels - 1);
  if (low == high) high += 0.001;  // as there, so that the ramp has a width
  std::vector<double> frequencies;
  for (double i = 0; i < channels / 2; ++i) {
    const double f = std::pow(base, -2 * i / channels),
                 ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    frequencies.push_back(f / rotary_scaling_factor * ramp + f * (1 - ramp));
  }
  return frequencies;
}

double LatentConfig::latent_magnitude() const {
  return magnitude(rotary_scaling_factor, mscale) /
         magnitude(rotary_scaling_factor, mscale_all_dim);
}

double LatentConfig::latent_scale() const {
  const double m = magnitude(rotary_scaling_factor, mscale_all_dim);
  return m * m / std::sqrt(static_cast<double>(latent_q_width()));
}

}  // namespace mt
