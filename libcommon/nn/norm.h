// Norm: LayerNorm or RMSNorm over the last dimension (kernels/layer_norm.h, kernels/rms_norm.h).
// x, y: [rows, cols]: tokens of the hidden size, or heads of their channels.
#pragma once

#include <cstdint>

#include "tensor/param.h"

namespace mt {

struct Matmul;
struct RowNorm;
struct Step;

enum class NormKind : std::uint8_t { layer, rms };

class Norm {
 public:
  struct Saved {
    Tensor mean, rstd;  // [rows]; an RMSNorm has no mean
  };
  struct Options {
    NormKind kind = NormKind::layer;
    double eps = 1e-5;
    bool zero_centered = false;
    bool has_weight = true;
    bool has_bias = true;  // of a LayerNorm
  };
  // Without a weight, and a bias, nothing is added to the table.  With `zero_centered` the scale is
  // 1 + weight, and the weight begins at 0 (Megatron's --apply-layernorm-1p).  `weight` describes
  // the scale, a module's weight or its layer_norm_weight; a LayerNorm's shift stands beside it as
  // bias or layer_norm_bias.
  Norm(ParamTable& table, Param weight, const Options& options);

  void forward(Step& s, Tensor y, ConstTensor x, Saved* saved) const;
  // norm(a) takes the place of the product's a, made in the product where it takes norms along and
  // `along` allows that, and else in `layer`.  For forwards without backward.
  void put_before(Step& s, Matmul& product, bool along = true) const;
  // dx = residual + the gradient, where x also went past the norm; residual may be empty.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved,
                ConstTensor residual = {}) const;

 private:
  ConstTensor scale(Step& s, const Shape& columns) const;
  RowNorm row_norm(const Step& s) const;
  ConstTensor shift(Step& s, const Shape& columns) const;
  Tensor gradient_of(Step& s, const Param* param, const Shape& columns) const;
  void done(Step& s) const;
  Options options_;
  const Param* weight_ = nullptr;
  const Param* bias_ = nullptr;
};

}  // namespace mt
