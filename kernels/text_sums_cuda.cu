#include "kernels/reduce.cuh"
#include "kernels/text_sums.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// One block a text.
__global__ __launch_bounds__(kThreads) void text_sums_kernel(float* __restrict__ sums,
                                                             const float* __restrict__ x,
                                                             const float* __restrict__ mask,
                                                             TextRows rows) {
  __shared__ double shared[2][kThreads / 32];
  const std::int64_t t = blockIdx.x;
  const TextRows::Range range = rows.range(t);
  double sum = 0, count = 0;
  for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += kThreads) {
    if (mask[i] == 0) continue;
    sum -= static_cast<double>(mask[i]) * static_cast<double>(x[i]);
    count += static_cast<double>(mask[i]);
  }
  sum = over_block(sum, shared[0]);
  count = over_block(count, shared[1]);
  if (threadIdx.x != 0) return;
  sums[t] = static_cast<float>(sum);
  sums[rows.rows * rows.texts + t] = static_cast<float>(count);
}

__global__ __launch_bounds__(kThreads) void spread_kernel(float* __restrict__ x,
                                                          const float* __restrict__ slope,
                                                          const float* __restrict__ mask,
                                                          TextRows rows) {
  const std::int64_t t = blockIdx.x;
  const TextRows::Range range = rows.range(t);
  const float factor = -slope[t];
  for (std::int64_t i = range.begin + threadIdx.x; i < range.end; i += kThreads)
    x[i] = factor * mask[i];
  if (!rows.is_last(t)) return;
  for (std::int64_t i = range.end + threadIdx.x; i < rows.end_of_row(t); i += kThreads) x[i] = 0;
}

}  // namespace

void text_sums(float* sums, const float* x, const float* mask, const TextRows& rows,
               cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(rows.rows * rows.texts);
  if (blocks == 0) return;
  text_sums_kernel<<<blocks, kThreads, 0, stream>>>(sums, x, mask, rows);
  check(cudaGetLastError());
}

void spread_over_texts(float* x, const float* slope, const float* mask, const TextRows& rows,
                       cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(rows.rows * rows.texts);
  if (blocks == 0) return;
  spread_kernel<<<blocks, kThreads, 0, stream>>>(x, slope, mask, rows);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
