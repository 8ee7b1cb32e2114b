// kernels/score_loss.h: losses of rows of scores whose targets are numbers; the gradient is written
// over the scores.
//   squared  loss[r] = mean_c (x[r,c] - t[r,c])^2
//   binary   loss[r] = mean_c (max(x, 0) - x t + log(1 + exp(-|x|)))     cross-entropy of
//   sigmoid(x) with gradient: x[r,c] = row_weight[r] d loss[r] / d x[r,c]
// x: [rows, cols];  t: [rows, cols];  loss, row_weight: [rows], row_weight null: x stays as it is.
// T: float or double; on the GPU x is float, bf16 or fp16, all else float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
enum class ScoreLoss : std::uint8_t { squared, binary };
}  // namespace mt

namespace mt::cpu {
template <class T>
void score_loss(T* loss, T* x, const T* t, const T* row_weight, std::int64_t rows,
                std::int64_t cols, ScoreLoss kind);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void score_loss(float* loss, T* x, const float* t, const float* row_weight, std::int64_t rows,
                std::int64_t cols, ScoreLoss kind, cudaStream_t stream);
}  // namespace mt::cuda
