#include "kernels/cuda_check.h"
#include "kernels/dft_loss.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void dft_loss_kernel(float* __restrict__ loss,
                                                            float* __restrict__ x,
                                                            const float* __restrict__ weight,
                                                            std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const float nll = x[i], p = expf(-nll);
  loss[i] = p * nll;
  if (weight) x[i] = weight[i] * p;
}

}  // namespace

void dft_loss(float* loss, float* x, const float* weight, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  dft_loss_kernel<<<blocks, kThreads, 0, stream>>>(loss, x, weight, count);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
