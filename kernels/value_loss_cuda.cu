#include "kernels/cuda_check.h"
#include "kernels/value_loss.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void value_loss_kernel(ValueTensors<float> tensors,
                                                              double clip) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i < tensors.rows * tensors.tokens) tensors.judge(i, clip);
}

}  // namespace

void value_loss(const ValueTensors<float>& tensors, double clip, cudaStream_t stream) {
  const std::int64_t tokens = tensors.rows * tensors.tokens;
  if (tokens == 0) return;
  const auto blocks = static_cast<unsigned>((tokens + kThreads - 1) / kThreads);
  value_loss_kernel<<<blocks, kThreads, 0, stream>>>(tensors, clip);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
