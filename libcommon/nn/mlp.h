// Mlp: the feed-forward part of a layer, and the residual around it.
//   y = residual + dropout(W_2 act(W_1 x + b_1) + b_2), where residual may be empty
// x, y, residual: [rows, hidden_size].  A gated activation halves what W_1 makes, and one with
// slopes has rows of its own.
#pragma once

#include <optional>

#include "nn/activation.h"

namespace mt {

class Mlp {
 public:
  struct Saved {
    Tensor h, a;  // W_1 x + b_1, act(h)
  };
  struct Slopes {  // Activation::xielu's (kernels/xielu.h), [1] each
    const Param *alpha_p, *alpha_n, *beta, *eps;
  };
  // `layer` is the layer's number in the model, from 0, which random numbers depend on.  With
  // `recompute` the backward makes h and a again.
  Mlp(Linear fc1, Linear fc2, Activation activation, std::int64_t layer, double hidden_dropout,
      bool recompute = false, const std::optional<Slopes>& slopes = {})
      : fc1_(fc1),
        fc2_(fc2),
        activation_(activation),
        layer_(layer),
        hidden_dropout_(hidden_dropout),
        recompute_(recompute),
        slopes_(slopes) {}

  ConstTensor first_weight() const { return fc1_.weight(); }  // not to be multiplied with

  // y empty: not wanted.  With a norm, x is its input.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  std::int64_t activated_features() const;
  void activate(Step& s, Tensor a, Tensor h, ConstTensor x, const Norm* norm = nullptr) const;
  void slopes_backward(Step& s, Tensor dh, ConstTensor da, ConstTensor h) const;
  void activate_backward(Step& s, Tensor dh, ConstTensor dy, ConstTensor a, Tensor h) const;
  Linear fc1_, fc2_;
  Activation activation_;
  std::int64_t layer_;
  double hidden_dropout_;
  bool recompute_;
  std::optional<Slopes> slopes_;
};

}  // namespace mt
