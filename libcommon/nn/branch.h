// Branch: one residual branch of a layer.  x, y: [rows, hidden_size].
//   y = x + dropout(f(norm(x)))
// f is a module, which adds the residual itself.
#pragma once

#include <variant>

#include "nn/cross_attention.h"
#include "nn/experts.h"
#include "nn/mamba.h"
#include "nn/mlp.h"
#include "nn/self_attention.h"

namespace mt {

class Branch {
 public:
  using Module = std::variant<SelfAttention, CrossAttention, Mlp, Experts, Mamba>;
  struct Saved {
    Tensor normed;  // empty: the backward makes it again
    Norm::Saved norm;
    std::variant<std::monostate, SelfAttention::Saved, CrossAttention::Saved, Mlp::Saved,
                 Experts::Saved, Mamba::Saved>
        module;
  };
  Branch(Norm norm, Module module, bool recompute_norm = false)
      : norm_(norm), module_(std::move(module)), recompute_norm_(recompute_norm) {}

  // The first of its weights, for the branch before to read ahead; not to be multiplied with.
  ConstTensor first_weight() const;

  // y is not x; empty: not wanted.  ahead: as in Matmul.
  void forward(Step& s, Tensor y, ConstTensor x, Saved* saved, ConstTensor ahead = {}) const;
  // dx is not dy.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  ConstTensor normed(Step& s, ConstTensor x, const Saved& saved) const;

  Norm norm_;
  Module module_;
  bool recompute_norm_;
};

}  // namespace mt
