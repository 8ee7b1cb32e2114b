// kernels/row_groups.h: vectors in groups, each around a centre: what a round of Lloyd's algorithm
// does behind the search of the nearest centres, and what vectors differ from them by.
//   sizes[p, g] = how many i have found[p, i] = g
//   centres[p, g] = mean over these i of x[i, p]; as it was where there are none
//   residuals     y[i] = x[i] - centres[found[i]]
// x: [rows, parts, width];  found: i32 [parts, rows], each below groups;  centres: [parts, groups,
// width];  sizes: i32 [parts, groups].  Numbers are f32, sums f64, in the order of rows on the CPU,
// on a GPU in another that is always the same.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct RowGroups {
  const std::int32_t* found = nullptr;
  const float* x = nullptr;
  std::int64_t rows = 0, parts = 1, width = 0, groups = 0;
};
}  // namespace mt

// row_residuals(): of one part; y may be x.
namespace mt::cpu {
void group_means(float* centres, std::int32_t* sizes, const RowGroups& problem);
void row_residuals(float* y, const float* centres, const RowGroups& problem);
}  // namespace mt::cpu

namespace mt::cuda {
void group_means(float* centres, std::int32_t* sizes, const RowGroups& problem,
                 cudaStream_t stream);
void row_residuals(float* y, const float* centres, const RowGroups& problem, cudaStream_t stream);
}  // namespace mt::cuda
