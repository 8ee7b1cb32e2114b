// LatentConfig: attention whose queries, keys and values are made from latent vectors, and how far
// its positions reach (Peng et al.: arXiv:2309.00071, YaRN, as DeepSeek has it).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mt {

struct LatentConfig {
  bool multi_latent_attention = false;
  std::optional<std::int64_t> q_lora_rank = {};  // of queries' latents; none: there are no such
  std::int64_t kv_lora_rank = 32;
  // Channels of a head: of a query and a key that do not turn by position and that do, and of a
  // value.
  std::int64_t qk_head_dim = 128, qk_pos_emb_head_dim = 64, v_head_dim = 128;
  double latent_norm_epsilon = 0;  // of the norms of latents; 0: that of all others
  double rotary_scaling_factor = 1, mscale = 1, mscale_all_dim = 1;
  // The positions that frequencies were first trained for; by default those that the model knows.
  std::optional<std::int64_t> original_max_position_embeddings = {};
  double yarn_beta_fast = 32, yarn_beta_slow = 1;  // turns within them

  // Refuses settings of latents where there are none, and channels of which one has no pair.
  void check() const;

  std::int64_t latent_q_width() const { return qk_head_dim + qk_pos_emb_head_dim; }
  // By how much each pair of the channels that turn does so from a position to the next:
  //   f_i = base^(-i / pairs);  f_i / factor where the wavelength is long, and between both a ramp
  std::vector<double> latent_frequencies(double base, std::int64_t positions) const;
  // What cosines and sines are multiplied by: M(mscale) / M(mscale_all_dim), where
  //   M(m) = 0.1 m ln factor + 1, or 1 for a factor of at most 1
  double latent_magnitude() const;
  // What scores are multiplied by: M(mscale_all_dim)^2 / sqrt(channels of a query), as in
  // transformers and in Megatron-LM after core_v0.12, which has mscale there.
  double latent_scale() const;
};

}  // namespace mt
