// ParallelBlock: a layer's attention and MLP, which read the same rows.
//   y = residual + attention(x) + mlp(x)
// x, y, residual: [rows, hidden_size].
#pragma once

#include "nn/mlp.h"
#include "nn/self_attention.h"

namespace mt {

class ParallelBlock {
 public:
  struct Saved {
    SelfAttention::Saved attention;
    Mlp::Saved mlp;
  };
  ParallelBlock(SelfAttention attention, Mlp mlp) : attention_(attention), mlp_(mlp) {}

  ConstTensor first_weight() const { return attention_.first_weight(); }

  // Both are as SelfAttention's.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  SelfAttention attention_;
  Mlp mlp_;
};

}  // namespace mt
