// ParallelBlock: a layer's attention and MLP, which read the same rows.
//   y = residual + attention(x) + mlp(x)
//   y = residual + attention(norm_1(x)) + mlp(norm_2(x))      with norms of its own
// x, y, residual: [rows, hidden_size].
#pragma once

#include <optional>

#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/self_attention.h"

namespace mt {

class ParallelBlock {
 public:
  struct Norms {
    Norm attention, mlp;
    bool recompute = false;  // the backward makes what they made again
  };
  struct Saved {
    SelfAttention::Saved attention;
    Mlp::Saved mlp;
    // Both are empty where the block has no norms of its own.
    Norm::Saved attention_norm, mlp_norm;
    Tensor of_attention, of_mlp;  // what they made; empty: the backward makes it again
  };
  ParallelBlock(SelfAttention attention, Mlp mlp, const std::optional<Norms>& norms = {})
      : attention_(attention), mlp_(mlp), norms_(norms) {}

  ConstTensor first_weight() const { return attention_.first_weight(); }

  // Both are as SelfAttention's.  With norms of its own there is no norm.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  Tensor normed(Step& s, const Norm& norm, ConstTensor x, Norm::Saved* saved) const;

  SelfAttention attention_;
  Mlp mlp_;
  std::optional<Norms> norms_;
};

}  // namespace mt
