// kernels/row_groups.h: vectors in groups, each around a centre: what a round of Lloyd's algorithm
// does behind the search of the nearest centres, and what vectors differ from them by.
//   sizes[p, g]   += how many i have found[p, i] = g
//   sums[p, g]    += sum over these i of x[i, p]
//   centres[p, g]  = sums[p, g] / sizes[p, g]; as it was where there are none
//   residuals     y[i] = x[i] - centres[found[i]]
//   rows of centres  y[i, p] = centres[p, found[p, i]]
//   row codes     y[i, p] = found[p, i], of at most 256 groups, in bytes
// x: [rows, parts, width];  found: i32 [parts, rows], each below groups;  centres: [parts, groups,
// width];  sums: f64 [parts, groups, width];  sizes: i32 [parts, groups].  Numbers are f32.  On the
// CPU they are added up in the order of rows, so that several calls with some rows each give what
// one gives with all; on a GPU, which sorts rows by their groups, in another that is always the
// same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct RowGroups {
  const std::int32_t* found = nullptr;
  const float* x = nullptr;
  std::int64_t rows = 0, parts = 1, width = 0, groups = 0;
};
}  // namespace mt

// row_residuals(): of one part; y may be x.  rows_of_centres() and row_codes(): without x.
namespace mt::cpu {
void add_to_groups(double* sums, std::int32_t* sizes, const RowGroups& problem);
void group_means(float* centres, const double* sums, const std::int32_t* sizes, std::int64_t groups,
                 std::int64_t width);  // groups: of all parts
void row_residuals(float* y, const float* centres, const RowGroups& problem);
void rows_of_centres(float* y, const float* centres, const RowGroups& problem);
void row_codes(std::uint8_t* y, const RowGroups& problem);
}  // namespace mt::cpu

namespace mt::cuda {
std::size_t add_to_groups_work(const RowGroups& problem);  // bytes beside the arguments
void add_to_groups(double* sums, std::int32_t* sizes, const RowGroups& problem, void* work,
                   cudaStream_t stream);
void group_means(float* centres, const double* sums, const std::int32_t* sizes, std::int64_t groups,
                 std::int64_t width, cudaStream_t stream);
void row_residuals(float* y, const float* centres, const RowGroups& problem, cudaStream_t stream);
void rows_of_centres(float* y, const float* centres, const RowGroups& problem, cudaStream_t stream);
void row_codes(std::uint8_t* y, const RowGroups& problem, cudaStream_t stream);
}  // namespace mt::cuda
