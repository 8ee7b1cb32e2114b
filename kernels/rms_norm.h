// kernels/rms_norm.h: RMSNorm over the last dimension (Zhang, Sennrich: arXiv:1910.07467, eq. 4).
//   rstd[r] = 1 / sqrt(mean_c x[r,c]^2 + eps)      y[r,c] = x[r,c] rstd[r] w[c]
// Backward, with h = x rstd and g = dy w:   dx = rstd (g - h mean_c (g h))      dw[c] += sum_r dy h
// x, y, dx, dy: [rows, cols];  w, dw: [cols];  rstd: [rows].  T: float or double.
// On the GPU T is float, bf16 or fp16; sums and rstd are f32, dw is f32, or bf16 if T is, and is
// added up over parts of the rows that depend on the shape alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void rms_norm_forward(T* y, T* rstd, const T* x, const T* w, std::int64_t rows, std::int64_t cols,
                      double eps);
template <class T>
void rms_norm_backward(T* dx, T* dw, const T* dy, const T* x, const T* rstd, const T* w,
                       std::int64_t rows, std::int64_t cols);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void rms_norm_forward(T* y, float* rstd, const T* x, const T* w, std::int64_t rows,
                      std::int64_t cols, double eps, cudaStream_t stream);
std::size_t rms_norm_backward_work(std::int64_t rows, std::int64_t cols);
// dx = add + the gradient: where x also went past the norm.  add may be null, or dx.
template <class T, class G>
void rms_norm_backward(T* dx, G* dw, const T* add, const T* dy, const T* x, const float* rstd,
                       const T* w, std::int64_t rows, std::int64_t cols, void* work,
                       cudaStream_t stream);
}  // namespace mt::cuda
