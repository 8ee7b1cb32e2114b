#include "model/config/latent_config.h"

#include <cmath>

#include "base/error.h"
#include "model/config/yarn.h"

namespace mt {

void LatentConfig::check() const {
  if (!multi_latent_attention) {
    const LatentConfig usual;
    const char* const given =
        q_lora_rank                                            ? "--q-lora-rank"
        : kv_lora_rank != usual.kv_lora_rank                   ? "--kv-lora-rank"
        : qk_head_dim != usual.qk_head_dim                     ? "--qk-head-dim"
        : qk_pos_emb_head_dim != usual.qk_pos_emb_head_dim     ? "--qk-pos-emb-head-dim"
        : v_head_dim != usual.v_head_dim                       ? "--v-head-dim"
        : latent_norm_epsilon != usual.latent_norm_epsilon     ? "--latent-norm-epsilon"
        : rotary_scaling_factor != usual.rotary_scaling_factor ? "--rotary-scaling-factor"
        : mscale != usual.mscale                               ? "--mscale"
        : mscale_all_dim != usual.mscale_all_dim               ? "--mscale-all-dim"
        : original_max_position_embeddings       ? "--original-max-position-embeddings"
        : yarn_beta_fast != usual.yarn_beta_fast ? "--yarn-beta-fast"
        : yarn_beta_slow != usual.yarn_beta_slow ? "--yarn-beta-slow"
                                                 : nullptr;
    const bool of_yarn = rotary_scaling_factor != 1 || mscale != 1 || mscale_all_dim != 1;
    if (given != nullptr)
      fail(Exit::bad_config, given, ": needs --multi-latent-attention",
           of_yarn ? " or --position-embedding-type yarn" : "");
    return;
  }
  if (qk_pos_emb_head_dim % 2 != 0)
    fail(Exit::bad_config, "--qk-pos-emb-head-dim ", qk_pos_emb_head_dim,
         ": expected an even number, whose pairs turn");
}

std::vector<double> LatentConfig::latent_frequencies(double base, std::int64_t positions) const {
  const auto channels = static_cast<double>(qk_pos_emb_head_dim);
  const Yarn yarn{
      .factor = rotary_scaling_factor,
      .original = static_cast<double>(original_max_position_embeddings.value_or(positions)),
      .beta_fast = yarn_beta_fast,
      .beta_slow = yarn_beta_slow};
  std::vector<double> frequencies;
  for (const double ramp : yarn.ramp(channels, base)) {
    const double i = static_cast<double>(frequencies.size()), f = std::pow(base, -2 * i / channels);
    frequencies.push_back(f / rotary_scaling_factor * ramp + f * (1 - ramp));
  }
  return frequencies;
}

double LatentConfig::latent_magnitude() const {
  const Yarn yarn{.factor = rotary_scaling_factor};
  return yarn.magnitude(mscale) / yarn.magnitude(mscale_all_dim);
}

double LatentConfig::latent_scale() const {
  const double m = Yarn{.factor = rotary_scaling_factor}.magnitude(mscale_all_dim);
  return m * m / std::sqrt(static_cast<double>(latent_q_width()));
}

}  // namespace mt
