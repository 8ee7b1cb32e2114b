// kernels/grouped_gemm.h: products of groups of rows, each group with a matrix of its own, as the
// experts of a layer have (Gale et al.: arXiv:2211.15841, section 3), in one kernel.
//   GroupedRows      c[r] = a[r] op(b_g)                      for the rows r of each group g
//   GroupedWeights   c_g = sum over the rows r of g of a[r]^T b[r] + (accumulate ? c_g : 0)
// Row-major, no padding between rows, sums in f32.  The rows of group g are [ends[g - 1], ends[g]),
// of the first from 0 on; a group may have none, and rows behind the last are no group's.  The
// matrices b_g, or c_g, lie `stride` elements from one group's to the next, which may come before
// it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda_types.h"

namespace mt {

inline constexpr std::int64_t kMostGroups = 512;

// Where groups' rows end, as the host knows, or as is read on the device when the product is made.
struct GroupEnds {
  std::span<const std::int64_t> here = {};
  const std::int32_t* there = nullptr;  // [groups], behind the end before them where that is not 0
  std::int64_t groups = 0, rows = 0;    // of `there`; rows: of all of a's, which are no fewer
  bool from_zero = true;                // else the first group's rows begin at there[-1]

  std::int64_t count() const { return there != nullptr ? groups : std::ssize(here); }
  std::int64_t most_rows() const { return there != nullptr ? rows : here.back(); }
};

struct GroupedRows {
  __nv_bfloat16* c = nullptr;        // [rows, n]
  const __nv_bfloat16* a = nullptr;  // [rows, k]
  const __nv_bfloat16* b = nullptr;  // of the first group [k, n], or, transposed, [n, k]
  std::int64_t n = 0, k = 0, stride = 0;
  bool transpose_b = false;
  GroupEnds ends = {};
};

// C: float or bf16, to which a sum and what is there are rounded together.
template <class C>
struct GroupedWeights {
  C* c = nullptr;                    // of the first group [m, n]
  const __nv_bfloat16* a = nullptr;  // [rows, m]
  const __nv_bfloat16* b = nullptr;  // [rows, n]
  std::int64_t m = 0, n = 0, stride = 0;
  bool accumulate = false;
  GroupEnds ends = {};
};

}  // namespace mt

// On Hopper.  Same problem, same bits: sums run over k, or over a group's rows, from the first to
// the last, 16 at a time.  What is no number in one group's rows stays in what that group makes.
namespace mt::cuda::hopper {
// Whether there are such kernels, and they take the sizes: multiples of 8, addresses of 16.
bool takes(const GroupedRows& problem);
template <class C>
bool takes(const GroupedWeights<C>& problem);
void grouped_gemm(const GroupedRows& problem, cudaStream_t stream);
template <class C>
void grouped_gemm(const GroupedWeights<C>& problem, cudaStream_t stream);
}  // namespace mt::cuda::hopper
