// kernels/layer_norm.h: LayerNorm over the last dimension (Ba, Kiros, Hinton: arXiv:1607.06450).
//   mean[r] = mean_c x[r,c]      rstd[r] = 1 / sqrt(mean_c (x[r,c] - mean[r])^2 + eps)
//   y[r,c] = (x[r,c] - mean[r]) rstd[r] w[c] + b[c]
// Backward, with h = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean_c g - h mean_c (g h))      dw[c] += sum_r dy h      db[c] += sum_r dy
// x, y, dx, dy: [rows, cols];  w, b, dw, db: [cols];  mean, rstd: [rows].  T: float or double.
// On the GPU T is float, bf16 or fp16; sums, mean and rstd are f32, dw and db are f32, or bf16 if T
// is, and are added up over parts of the rows that depend on the shape alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void layer_norm_forward(T* y, T* mean, T* rstd, const T* x, const T* w, const T* b,
                        std::int64_t rows, std::int64_t cols, double eps);
template <class T>
void layer_norm_backward(T* dx, T* dw, T* db, const T* dy, const T* x, const T* mean, const T* rstd,
                         const T* w, std::int64_t rows, std::int64_t cols);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void layer_norm_forward(T* y, float* mean, float* rstd, const T* x, const T* w, const T* b,
                        std::int64_t rows, std::int64_t cols, double eps, cudaStream_t stream);
std::size_t layer_norm_backward_work(std::int64_t rows, std::int64_t cols);
// dx = add + the gradient: where x also went past the norm.  add may be null, or dx.
template <class T, class G>
void layer_norm_backward(T* dx, G* dw, G* db, const T* add, const T* dy, const T* x,
                         const float* mean, const float* rstd, const T* w, std::int64_t rows,
                         std::int64_t cols, void* work, cudaStream_t stream);
}  // namespace mt::cuda
