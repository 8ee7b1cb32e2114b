// kernels/nearest_rows.h: for each of some vectors the nearest of some centres by squared distance,
// of several that are as near the first: the one with the largest
//   s[i, j] = x[i] c[j] - |c[j]|^2 / 2         as |x - c|^2 = |x|^2 - 2 s
// either of products that are there already, or, where vectors have parts of few columns, each with
// centres of its own (Jégou, Douze, Schmid, "Product quantization for nearest neighbor search",
// 2011), at once.  All numbers are f32, and so are sums.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

// products: [rows, count] of x c; half_squares: [count].  They are of the centres from `first` on.
struct NearestOfProducts {
  const float* products = nullptr;
  const float* half_squares = nullptr;
  std::int64_t rows = 0, count = 0, first = 0;
};

inline constexpr std::int64_t kNearestPartColumns = 32;  // of a part, at most

// x: [rows, parts, width];  centres: [parts, count, width], at least one.
struct NearestParts {
  const float* x = nullptr;
  const float* centres = nullptr;
  std::int64_t rows = 0, parts = 1, width = 0, count = 0;
  std::int64_t stride = 0;  // from a part to the next in what is found, at least rows
};

}  // namespace mt

// half_squares: |c|^2 / 2 of each row of c, [count, columns].  nearest_of_products() keeps in
// found and best, [rows], the numbers and the s of what is nearest of all centres so far; they
// begin as 0 and minus infinity.  nearest_parts(): found is [parts, stride], of which each part's
// first `rows` are written.
namespace mt::cpu {
void half_squares(float* half, const float* c, std::int64_t count, std::int64_t columns);
void nearest_of_products(std::int32_t* found, float* best, const NearestOfProducts& problem);
void nearest_parts(std::int32_t* found, const NearestParts& problem);
}  // namespace mt::cpu

namespace mt::cuda {
void half_squares(float* half, const float* c, std::int64_t count, std::int64_t columns,
                  cudaStream_t stream);
void nearest_of_products(std::int32_t* found, float* best, const NearestOfProducts& problem,
                         cudaStream_t stream);
void nearest_parts(std::int32_t* found, const NearestParts& problem, cudaStream_t stream);
}  // namespace mt::cuda
