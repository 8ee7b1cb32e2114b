// Block: a pre-norm transformer block.  x, y: [rows, hidden_size].
//   h = x + attention(norm1(x))      y = h + mlp(norm2(h))
#pragma once

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace mt {

class Block {
 public:
  struct Saved {
    Tensor n1, h, n2;  // of norm1, the attention and norm2
    Norm::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
  };
  // With `recompute_norms` the backward makes n1 and n2 again.
  Block(Norm norm1, Attention attention, Norm norm2, Mlp mlp, bool recompute_norms = false)
      : norm1_(norm1),
        attention_(attention),
        norm2_(norm2),
        mlp_(mlp),
        recompute_norms_(recompute_norms) {}

  // y may be x; empty: not wanted.
  void forward(Step& s, Tensor y, ConstTensor x, Saved* saved) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // dx may be dy

 private:
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  Mlp mlp_;
  bool recompute_norms_;
};

}  // namespace mt
