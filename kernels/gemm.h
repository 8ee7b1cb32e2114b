// kernels/gemm.h: matrix products of row-major matrices.
//   c = op(a) op(b) + (accumulate ? c : 0) + bias        op(x) = x or its transpose
// c: [m, n];  op(a): [m, k];  op(b): [k, n];  bias: [n] or null, added to every row.  No padding
// between rows.  T: float or double, sums in T.  The result's bits depend on the shape alone, not
// on how many threads work.  Where at most kFewRows rows meet a transposed b (and a is not), a
// row's bits depend on that row, b and bias alone, so that a sequence does not notice which others
// a step of generation serves.
#pragma once

#include <cstdint>

namespace mt {
inline constexpr std::int64_t kFewRows = 16;

template <class T>
struct Gemm {
  T* c = nullptr;
  const T* a = nullptr;
  const T* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k, m], b is stored [n, k]
  bool accumulate = false;
  const T* bias = nullptr;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void gemm(const Gemm<T>& problem);
}
