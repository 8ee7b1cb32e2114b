// Embedding: y = dropout(norm(m E[ids] + P[positions] + T[types] + noise)); the tables P of learned
// positions and T of types are optional, and so are the norm and the noise, which training adds
// (kernels/text_noise.h).  ids, positions, types: [tokens] i32;  y: [rows, hidden_size];  E:
// [vocab, hidden_size], whose rows tensor-parallel ranks share.  m, the multiplier, is rounded to
// y's type.  Where the Step has rows to insert, these are added to zeros, as words of ids below 0
// are.
#pragma once

#include <optional>

#include "nn/norm.h"
#include "nn/step.h"

namespace mt {

class Embedding {
 public:
  struct Saved {
    ConstTensor ids, positions, types;  // [tokens], [rows], [rows]
    Tensor x = {};                      // [rows, hidden_size], what a norm is given
    Norm::Saved norm = {};
  };
  // Null: there is no such table.
  struct Tables {
    const Param* words = nullptr;
    const Param* positions = nullptr;
    const Param* types = nullptr;
  };
  struct Options {
    double multiplier = 1;
    double noise = 0;  // its alpha; where there is one, tokens have a first_key, or lengths
    std::int64_t first_position = 0;  // P's row of position 0
    std::optional<Norm> norm = {};
  };
  Embedding(const Tables& tables, double dropout, const Options& options)
      : tables_(tables), dropout_(dropout), options_(options) {}
  Embedding(const Tables& tables, double dropout) : Embedding(tables, dropout, Options{}) {}

  void forward(Step& s, Tensor y, ConstTensor ids, ConstTensor types, Saved* saved) const;
  void backward(Step& s, Tensor dy,
                const Saved& saved) const;  // dy is overwritten by its masked self

 private:
  void look_up(Step& s, Tensor y, ConstTensor ids) const;
  double multiplier(DType dtype) const;

  Tables tables_;
  double dropout_;
  Options options_;
};

}  // namespace mt
