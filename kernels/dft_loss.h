// kernels/dft_loss.h: dynamic finetuning's loss of each token (Wu et al.: arXiv:2508.05629, eq. 9),
// in which what a model holds for unlikely counts for less:
//   x = -log p       loss[i] = p x[i];  with weight x[i] becomes weight[i] p, for p is a constant
// loss, x, weight: [count], weight null: x stays as it is.  T: float or double; on the GPU float.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void dft_loss(T* loss, T* x, const T* weight, std::int64_t count);
}  // namespace mt::cpu

namespace mt::cuda {
void dft_loss(float* loss, float* x, const float* weight, std::int64_t count, cudaStream_t stream);
}  // namespace mt::cuda
