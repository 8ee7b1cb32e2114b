// kernels/weighted_swiglu.h: the gated activation of experts, times what each row's expert weighs
// (Jiang et al.: arXiv:2401.04088, section 2.1; the weight stands before W_2, which is linear).
//   forward    y[r] = w[r] swiglu(x[r])                                  swiglu: activation.h
//   backward   dx[r] = the gradient of that by x[r],  dw[r] = sum_c dy[r, c] swiglu(x[r])[c]
// x, dx: [rows, 2 cols], a row is gate then up;  y, dy: [rows, cols];  w, dw: [rows] of the type of
// sums.  T: float or double; on the GPU float, bf16 or fp16, and a number is rounded once.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void weighted_swiglu_forward(T* y, const T* x, const T* w, std::int64_t rows, std::int64_t cols);
template <class T>
void weighted_swiglu_backward(T* dx, T* dw, const T* dy, const T* x, const T* w, std::int64_t rows,
                              std::int64_t cols);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void weighted_swiglu_forward(T* y, const T* x, const float* w, std::int64_t rows, std::int64_t cols,
                             cudaStream_t stream);
template <class T>
void weighted_swiglu_backward(T* dx, float* dw, const T* dy, const T* x, const float* w,
                              std::int64_t rows, std::int64_t cols, cudaStream_t stream);
}  // namespace mt::cuda
