// Rotation: a matrix that vectors are multiplied by in front of an index, y = A x + b; trained for
// a product quantizer behind it (Ge, He, Ke, Sun, "Optimized product quantization", 2013), or as
// the principal components that vectors have most of.  Or it is none, and vectors become of length
// 1, but those of length 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/products.h"

namespace mt {

struct Rotation {
  std::int64_t in = 0, out = 0;
  std::int64_t parts = 0;  // that it is trained for; 0: it is principal components
  float power = 0;      // of their sums of squares, that components are multiplied by; -1/2 whitens
  bool turned = false;  // and by a drawn rotation behind, so that all have as much
  bool to_length_1 = false;                   // no matrix, and in == out
  std::vector<float> matrix = {}, bias = {};  // [out, in]; [out] or empty

  bool trained() const { return to_length_1 || !matrix.empty(); }
  std::vector<float> apply(std::span<const float> vectors, Products& products) const;
  // y: [rows, out], of vectors where products are made, [rows, in].
  void apply(Tensor y, ConstTensor vectors, Products& products) const;
  std::int64_t fewest_vectors() const;                        // that it can be trained on
  std::int64_t training_numbers(std::int64_t vectors) const;  // f32 where products are made
  // The matrix with orthonormal rows for which a product quantizer of so many parts errs least, as
  // faiss's OPQMatrix: 50 rounds from a drawn matrix on; or components, as its PCAMatrix has them.
  void train(std::span<const float> vectors, Products& products);

 private:
  void train_for_parts(std::span<const float> vectors, Products& products);
  void train_components(std::span<const float> vectors, Products& products);
};

}  // namespace mt
