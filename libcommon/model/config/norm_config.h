// NormConfig: the norms before a layer's branches, behind them, and of its heads.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

enum class NormKind : std::uint8_t;  // nn/norm.h

struct NormConfig {
  std::string normalization = "LayerNorm";  // or RMSNorm
  double norm_epsilon = 1e-5;
  bool apply_layernorm_1p = false, qk_layernorm = false;
  bool qk_layernorm_whole = false;     // over all heads' channels of a token, not over each head's
  bool qk_layernorm_per_head = false;  // each head has weights of its own
  bool qk_layernorm_behind_rope = false;              // of heads once they have turned
  bool norm_bias = true;                              // of a LayerNorm
  bool norm_weight = true;                            // which normalized numbers are multiplied by
  bool pre_layernorm = true, post_layernorm = false;  // of each branch
  bool embedding_layernorm = false;                   // of what is embedded
  bool residual_of_norm = false;  // what branches make is added to what the norm in front made

  NormKind norm_kind() const;
};

}  // namespace mt
