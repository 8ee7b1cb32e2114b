// Rotation: a matrix that vectors are multiplied by in front of an index, y = A x + b; trained for
// a product quantizer behind it (Ge, He, Ke, Sun, "Optimized product quantization", 2013).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/products.h"

namespace mt {

struct Rotation {
  std::int64_t in = 0, out = 0;
  std::int64_t parts = 0;                     // that it is trained for
  std::vector<float> matrix = {}, bias = {};  // [out, in]; [out] or empty

  std::vector<float> apply(std::span<const float> vectors, Products& products) const;
  // The matrix with orthonormal rows for which a product quantizer of so many parts errs least;
  // faiss's OPQMatrix: 50 rounds from a drawn matrix on.
  void train(std::span<const float> vectors, Products& products);
};

}  // namespace mt
