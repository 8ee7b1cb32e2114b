// Linear: y = x W^T + b.  x: [tokens, in], y: [tokens, out], W: [out, in], b: [out] or none.
#pragma once

#include "nn/step.h"

namespace mt {

class Linear {
 public:
  // Where the bias is added: here, or by whoever adds the residual (who then also asks for bias()).
  enum class Bias { none, here, by_caller };

  // `weight` describes the weight; a bias takes its name, key, segments and stage from it.
  Linear(ParamTable& table, Param weight, Bias bias);

  void forward(Step& s, Tensor y, ConstTensor x) const;
  // y = gelu(x W^T + b), in the tanh form; its argument goes to `at`.
  void forward_gelu(Step& s, Tensor y, Tensor at, ConstTensor x) const;
  // dx empty: not wanted.  With `gelu_at`, x = gelu(gelu_at), and dx is the gradient of gelu_at.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Tensor& gelu_at = {}) const;
  ConstTensor bias(const Step& s) const { return bias_ ? s.weight(*bias_) : ConstTensor(); }
  std::int64_t out_features() const { return weight_->shape[0]; }

 private:
  void multiply(Step& s, Tensor y, ConstTensor x, const Tensor* gelu_at) const;
  const Param* weight_;
  const Param* bias_ = nullptr;
  Bias bias_place_;
};

}  // namespace mt
