// kernels/hidden_loss.h: how far a row of hidden states is from a teacher's.
//   cosine   loss[r] = 1 - x[r] y[r] / (|x[r]| |y[r]|), norms at least 1e-8
//   squared  loss[r] = mean_c (x[r,c] - y[r,c])^2
//   with weight dx[r] += weight[r] d loss[r] / d x[r]
// x, y, dx: [rows, cols];  loss, weight: [rows], weight and dx null: no gradient.  T: float or
// double; on the GPU x, y and dx are float, bf16 or fp16, loss and weight float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
enum class HiddenLoss : std::uint8_t { none, cosine, squared };
}  // namespace mt

namespace mt::cpu {
template <class T>
void hidden_loss(T* loss, T* dx, const T* x, const T* y, const T* weight, std::int64_t rows,
                 std::int64_t cols, HiddenLoss kind);
}  // namespace mt::cpu

namespace mt::cuda {
template <class X>
void hidden_loss(float* loss, X* dx, const X* x, const X* y, const float* weight, std::int64_t rows,
                 std::int64_t cols, HiddenLoss kind, cudaStream_t stream);
}  // namespace mt::cuda
