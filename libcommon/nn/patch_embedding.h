// PatchEmbedding: the hidden states in front of a ViT's layers.  Of token i of an image
//   y = dropout(C[i] + P[i])                         the first tokens, of classes
//   y = dropout(W pixels + b + P[i])                 the others, each of a patch
// or a norm of that.  There may be no b.  Where tokens of classes have no positions the first are
//   y = dropout(C[i])          and the others          y = dropout(W pixels + b + P[i - classes])
// pixels: [tokens, width] of any type, those of tokens of classes zeroes;  y: [rows, hidden_size];
// C: [classes, hidden_size];  P: [length, hidden_size];  W: [hidden_size, width];  b:
// [hidden_size].  Every tensor-parallel rank has them whole.
#pragma once

#include <optional>

#include "nn/linear.h"
#include "nn/step.h"

namespace mt {

class PatchEmbedding {
 public:
  struct Saved {
    ConstTensor places;  // [rows] i32
    Tensor pixels;       // [rows, width]
    Tensor embedded;     // [rows, hidden_size], in front of the norm
    Norm::Saved norm;
  };
  struct Rows {
    const Param* classes;  // null: there are no such tokens
    const Param* positions;
    const Param* bias;  // null: there is none
    bool classes_have_positions = true;
  };
  // `product`: W, without a bias.
  PatchEmbedding(Linear product, const Rows& rows, double dropout, std::optional<Norm> norm)
      : product_(product), rows_(rows), dropout_(dropout), norm_(norm) {}

  // places: [tokens] i32, the i of each token.
  void forward(Step& s, Tensor y, ConstTensor pixels, ConstTensor places, Saved* saved) const;
  void backward(Step& s, ConstTensor dy, const Saved& saved) const;

 private:
  std::int64_t class_tokens() const;
  std::int64_t first_position() const;  // of a patch
  void embed(Step& s, Tensor y, ConstTensor pixels, ConstTensor places) const;

  Linear product_;
  Rows rows_;
  double dropout_;
  std::optional<Norm> norm_;
};

}  // namespace mt
