// Norm: LayerNorm or RMSNorm over the last dimension (kernels/layer_norm.h, kernels/rms_norm.h).
// x, y: [tokens, hidden_size].
#pragma once

#include "nn/step.h"

namespace mt {

enum class NormKind : std::uint8_t { layer, rms };

class Norm {
 public:
  struct Saved {
    Tensor mean, rstd;  // [tokens]; an RMSNorm has no mean
  };
  // `weight` describes the scale, with "…weight" at the end of its names; a LayerNorm's shift takes
  // its names with "bias" instead.
  Norm(ParamTable& table, Param weight, NormKind kind, double eps);

  void forward(Step& s, Tensor y, ConstTensor x, Saved* saved) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  NormKind kind_;
  double eps_;
  const Param* weight_;
  const Param* bias_ = nullptr;
};

}  // namespace mt
