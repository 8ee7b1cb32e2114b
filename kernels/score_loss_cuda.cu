#include "kernels/cuda_check.h"
#include "kernels/reduce.cuh"
#include "kernels/score_loss.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>  // one warp a row
__global__ __launch_bounds__(kThreads) void score_loss_kernel(
    float* __restrict__ loss, T* __restrict__ x, const float* __restrict__ t,
    const float* __restrict__ row_weight, std::int64_t rows, std::int64_t cols, ScoreLoss kind) {
  const std::int64_t r = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (r >= rows) return;
  float sum = 0;
  for (std::int64_t c = r * cols + threadIdx.x % 32; c < (r + 1) * cols; c += 32) {
    const float score = static_cast<float>(x[c]), target = t[c];
    float slope;
    if (kind == ScoreLoss::squared) {
      const float apart = score - target;
      sum += apart * apart;
      slope = 2 * apart;
    } else {
      sum += fmaxf(score, 0) - score * target + log1pf(expf(-fabsf(score)));
      slope = 1 / (1 + expf(-score)) - target;
    }
    if (row_weight) x[c] = static_cast<T>(row_weight[r] * slope / static_cast<float>(cols));
  }
  sum = over_lanes(sum);
  if (threadIdx.x % 32 == 0) loss[r] = sum / static_cast<float>(cols);
}

}  // namespace

template <class T>
void score_loss(float* loss, T* x, const float* t, const float* row_weight, std::int64_t rows,
                std::int64_t cols, ScoreLoss kind, cudaStream_t stream) {
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32));
  score_loss_kernel<<<blocks, kThreads, 0, stream>>>(loss, x, t, row_weight, rows, cols, kind);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                         \
  template void score_loss(float*, T*, const float*, const float*, std::int64_t, std::int64_t, \
                           ScoreLoss, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
