// NormConfig: the norms before a layer's branches and of its heads.
#pragma once

#include <cstdint>
#include <string>

namespace mt {

enum class NormKind : std::uint8_t;  // nn/norm.h

struct NormConfig {
  std::string normalization = "LayerNorm";  // or RMSNorm
  double norm_epsilon = 1e-5;
  bool apply_layernorm_1p = false, qk_layernorm = false;

  NormKind norm_kind() const;
};

}  // namespace mt
