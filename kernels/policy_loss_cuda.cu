#include "kernels/policy_loss.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// One block a text.
__global__ __launch_bounds__(kThreads) void policy_loss_kernel(PolicyTensors<float> tensors,
                                                               PolicyRules rules) {
  __shared__ double shared[3][kThreads / 32];
  const TextRows& rows = tensors.rows;
  const std::int64_t t = blockIdx.x;
  const TextRows::Range range = rows.range(t);
  double sum = 0, count = 0, slope = 0;
  if (rules.needs_texts()) {
    for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += kThreads) {
      sum += tensors.in_sum(i, rules);
      count += static_cast<double>(tensors.mask[i]);
    }
    sum = over_block(sum, shared[0]);
    count = over_block(count, shared[1]);
  }
  for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += kThreads)
    slope += tensors.judge(i, rules, sum, count);
  if (rules.of_texts() && tensors.weight) {
    slope = over_block(slope, shared[2]);
    for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += kThreads)
      tensors.share(i, rules, slope, count);
  }
  if (!rows.is_last(t)) return;
  for (std::int64_t i = range.end + threadIdx.x; i < rows.end_of_row(t); i += kThreads)
    tensors.clear(i);
}

}  // namespace

void policy_loss(const PolicyTensors<float>& tensors, const PolicyRules& rules,
                 cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(tensors.rows.rows * tensors.rows.texts);
  if (blocks == 0) return;
  policy_loss_kernel<<<blocks, kThreads, 0, stream>>>(tensors, rules);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
