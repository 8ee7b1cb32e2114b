// Embedding: y = dropout(E[ids] + P[positions]); the table P of learned positions is optional.
// ids, positions: [tokens] i32;  y: [rows, hidden_size];  E: [vocab, hidden_size], whose rows
// tensor-parallel ranks share.
#pragma once

#include "nn/step.h"

namespace mt {

class Embedding {
 public:
  struct Saved {
    ConstTensor ids, positions;  // [tokens], [rows]
  };
  Embedding(const Param& words, const Param* positions, double dropout)
      : words_(&words), positions_(positions), dropout_(dropout) {}

  void forward(Step& s, Tensor y, ConstTensor ids, Saved* saved) const;
  void backward(Step& s, Tensor dy,
                const Saved& saved) const;  // dy is overwritten by its masked self

 private:
  void look_up(Step& s, Tensor y, ConstTensor ids) const;

  const Param* words_;
  const Param* positions_;
  double dropout_;
};

}  // namespace mt
