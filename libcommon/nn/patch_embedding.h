// PatchEmbedding: the hidden states in front of a ViT's layers.  Of token i of an image
//   y = dropout(C[i] + P[i])                         the first tokens, of classes
//   y = dropout(W pixels + b + P[i])                 the others, each of a patch
// pixels: [tokens, width] of any type, those of tokens of classes zeroes;  y: [rows, hidden_size];
// C: [classes, hidden_size];  P: [length, hidden_size];  W: [hidden_size, width];  b:
// [hidden_size].  Every tensor-parallel rank has them whole.
#pragma once

#include "nn/linear.h"
#include "nn/step.h"

namespace mt {

class PatchEmbedding {
 public:
  struct Saved {
    ConstTensor places;  // [rows] i32
    Tensor pixels;       // [rows, width]
  };
  struct Rows {
    const Param* classes;  // null: there are no such tokens
    const Param* positions;
    const Param* bias;
  };
  // `product`: W, without a bias.
  PatchEmbedding(Linear product, const Rows& rows, double dropout)
      : product_(product), rows_(rows), dropout_(dropout) {}

  // places: [tokens] i32, the i of each token.
  void forward(Step& s, Tensor y, ConstTensor pixels, ConstTensor places, Saved* saved) const;
  void backward(Step& s, ConstTensor dy, const Saved& saved) const;

 private:
  std::int64_t class_tokens() const;

  Linear product_;
  Rows rows_;
  double dropout_;
};

}  // namespace mt
