// kernels/few_rows.h: products of a few rows with a transposed matrix on a GPU, as in generation:
// reading the matrix takes the time.  What stands before and behind the product goes with it.
//   z[i, j] = sum_k norm(a)[i, k] b[j, k] + bias[j]
//   c[i, j] = residual[i, j] + z[i, j], or gelu(z[i, j]) in its tanh form,
//             or silu(z[i, j]) z[i, n/2 + j] for j < n/2          z itself goes to `at`
//   norm(a)[i, k] = (a[i, k] - mean_i) rstd_i (w[k] + offset) + shift[k], rounded to T, as in
//   layer_norm.h, or with mean 0 and without a shift as in rms_norm.h
// a: [m, k];  b: [n, k];  c: [m, n], or [m, n/2] of silu;  at: [m, n];  residual: [m, n]
// bias: [n];  w, shift: [k].  T: float, bf16 or fp16;  C: T or float; sums in f32.  bias, residual,
// at, shift may be null, and so may w: no norm.  residual may be c.
//
// A row's bits depend on that row and the other operands alone, not on m, so that a text's do not
// depend on how many others are generated with it.  Above kFewRows (gemm.h) multiplying takes the
// time, and the last bits that cuBLASLt would give are others.
//
// The kernel begins before the one queued ahead of it has ended (dependent.cuh) and reads b, w and
// shift then: that kernel must not be what writes them.
//
// The CPU computes the same in parts: gemm.h, rms_norm.h, layer_norm.h, activation.h.
#pragma once

#include "kernels/gemm.h"

namespace mt {
template <class T, class C = T>
struct FewRows {
  C* c = nullptr;
  const T *a = nullptr, *b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  const T* bias = nullptr;
  const C* residual = nullptr;
  enum class Then : std::uint8_t { store, gelu, swiglu } then = Then::store;
  T* at = nullptr;
  struct Norm {
    const T *w = nullptr, *shift = nullptr;
    float eps = 0, offset = 0;
    bool centred = false;  // a mean is subtracted
  } norm = {};
  // What is read after this product, the first of it first, at a multiple of 16 bytes: a part of it
  // is brought into the L2 while the kernel waits for the one queued ahead of it.  Null: nothing.
  const void* ahead = nullptr;
  std::size_t ahead_bytes = 0;
  T* work = nullptr;  // [m, k] of scratch, where there is a norm
};
}  // namespace mt

namespace mt::cuda {
// Whether a norm can go with it: of 16-bit types in whole units of 16 bytes, on a GPU whose blocks
// can have some 190 KiB of shared memory.
template <class T, class C>
bool few_rows_norms(const FewRows<T, C>& problem);
template <class T, class C>
void few_rows(const FewRows<T, C>& problem, cudaStream_t stream);
}  // namespace mt::cuda
