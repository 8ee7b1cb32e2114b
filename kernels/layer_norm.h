// kernels/layer_norm.h: LayerNorm over the last dimension (Ba, Kiros, Hinton: arXiv:1607.06450).
//   mean[r] = mean_c x[r,c]      rstd[r] = 1 / sqrt(mean_c (x[r,c] - mean[r])^2 + eps)
//   y[r,c] = (x[r,c] - mean[r]) rstd[r] w[c] + b[c]
// Backward, with h = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean_c g - h mean_c (g h))      dw[c] += sum_r dy h      db[c] += sum_r dy
// x, y, dx, dy: [rows, cols];  w, b, dw, db: [cols];  mean, rstd: [rows].  T: float or double.
#pragma once

#include <cstdint>

namespace mt::cpu {
template <class T>
void layer_norm_forward(T* y, T* mean, T* rstd, const T* x, const T* w, const T* b,
                        std::int64_t rows, std::int64_t cols, double eps);
template <class T>
void layer_norm_backward(T* dx, T* dw, T* db, const T* dy, const T* x, const T* mean, const T* rstd,
                         const T* w, std::int64_t rows, std::int64_t cols);
}  // namespace mt::cpu
