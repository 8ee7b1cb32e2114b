// Embedding: y = dropout(E[ids] + P[positions] + T[types]); the tables P of learned positions and T
// of types are optional.  ids, positions, types: [tokens] i32;  y: [rows, hidden_size];  E: [vocab,
// hidden_size], whose rows tensor-parallel ranks share.
#pragma once

#include "nn/step.h"

namespace mt {

class Embedding {
 public:
  struct Saved {
    ConstTensor ids, positions, types;  // [tokens], [rows], [rows]
  };
  // Null: there is no such table.
  struct Tables {
    const Param* words = nullptr;
    const Param* positions = nullptr;
    const Param* types = nullptr;
  };
  Embedding(const Tables& tables, double dropout) : tables_(tables), dropout_(dropout) {}

  void forward(Step& s, Tensor y, ConstTensor ids, ConstTensor types, Saved* saved) const;
  void backward(Step& s, Tensor dy,
                const Saved& saved) const;  // dy is overwritten by its masked self

 private:
  void look_up(Step& s, Tensor y, ConstTensor ids) const;

  Tables tables_;
  double dropout_;
};

}  // namespace mt
