// DinoHead: what a student and its teacher say of a view of an image (Caron et al.:
// arXiv:2104.14294, appendix C), from the hidden state of one token:
//   z      = W_3 gelu(W_2 gelu(W_1 x + b_1) + b_2) + b_3
//   logits = g_k (v_k / |v_k|) . (z / |z|)                of output k
// x: [rows, hidden_size];  z: [rows, bottleneck];  v: [outputs, bottleneck];  g: [outputs, 1].
// Every tensor-parallel rank has all of it.
#pragma once

#include "nn/linear.h"

namespace mt {

class DinoHead {
 public:
  struct Saved {
    ConstTensor x, last_learns;
    Tensor h1, a1, h2, a2;   // W x + b, and what GeLU makes of it
    Tensor z, unit, length;  // z, z / |z|, and sqrt(bottleneck) / |z|
    Tensor logits;           // in backward, the gradient of them
  };
  DinoHead(const Linear& first, const Linear& second, const Linear& third, const Param& directions,
           const Param& lengths)
      : first_(first),
        second_(second),
        third_(third),
        directions_(&directions),
        lengths_(&lengths) {}

  // last_learns: [rows] of the sum_dtype: 1, or 0 in rows from which v and g learn nothing.
  void forward(Step& s, Tensor logits, ConstTensor x, ConstTensor last_learns, Saved* saved) const;
  void backward(Step& s, Tensor dx, const Saved& saved) const;

 private:
  struct Last {
    Tensor unit, length, lengths, weight;  // v / |v|, sqrt(bottleneck) / |v|, g, and g v / |v|
  };
  Last last(Step& s) const;

  Linear first_, second_, third_;
  const Param *directions_, *lengths_;  // v and g
};

}  // namespace mt
