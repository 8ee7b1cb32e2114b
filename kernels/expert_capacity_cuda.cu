// A block for each expert finds the smallest weight that it keeps, bit by bit.
#include "kernels/expert_capacity.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;

// Returns a number above 0 that is the larger the larger a weight is, which is not below 0; no
// number counts as 0.
__device__ unsigned order_of(const float* weight, std::int64_t i) {
  if (weight == nullptr) return 1;
  const float value = weight[i];
  return (value > 0 ? __float_as_uint(value) : 0) + 1;
}

__global__ __launch_bounds__(kThreads) void keep_kernel(std::int32_t* kept,
                                                        const std::int32_t* expert,
                                                        const float* weight, CapacityShape s) {
  __shared__ int shared[kWarps];
  __shared__ int before[kWarps + 1];
  const std::int64_t slots = s.tokens * s.chosen;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto order = [&](std::int64_t i) {  // 0 where slot i is of another expert
    return i < slots && expert[i] == static_cast<std::int32_t>(blockIdx.x) ? order_of(weight, i)
                                                                           : 0;
  };
  const auto count_from = [&](unsigned least) {
    int count = 0;
    for (std::int64_t i = threadIdx.x; i < slots; i += kThreads) count += order(i) >= least;
    __syncthreads();
    return over_block(count, shared);
  };
  // Becomes the largest order that as many slots reach as the expert keeps; 1 where it keeps all.
  unsigned least = 1;
  if (count_from(1) > s.capacity) {
    least = 0;
    for (int bit = 31; bit >= 0; --bit)
      if (count_from(least | 1u << bit) >= s.capacity) least |= 1u << bit;
  }
  // Of equal ones the first are kept.
  std::int64_t room = s.capacity - (least == ~0u ? 0 : count_from(least + 1));
  for (std::int64_t begin = 0; begin < slots; begin += kThreads) {
    const std::int64_t i = begin + threadIdx.x;
    const unsigned own = order(i);
    const unsigned lanes = __ballot_sync(0xffffffff, own == least);
    if (threadIdx.x % 32 == 0) before[warp + 1] = __popc(lanes);
    __syncthreads();
    if (threadIdx.x == 0) {
      before[0] = 0;
      for (int w = 0; w < kWarps; ++w) before[w + 1] += before[w];
    }
    __syncthreads();
    const int rank = before[warp] + __popc(lanes & ((1u << threadIdx.x % 32) - 1));
    if (own > 0) kept[i] = own > least || (own == least && rank < room) ? expert[i] : -1;
    room -= before[kWarps];
    __syncthreads();
  }
}

__global__ __launch_bounds__(kThreads) void dropped_kernel(double* sum, const std::int32_t* kept,
                                                           std::int64_t count) {
  __shared__ double shared[kWarps];
  double dropped = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) dropped += kept[i] < 0;
  dropped = over_block(dropped, shared);
  if (threadIdx.x == 0) *sum += dropped;
}

}  // namespace

void keep_tokens(std::int32_t* kept, const std::int32_t* expert, const float* weight,
                 const CapacityShape& s, cudaStream_t stream) {
  if (s.tokens == 0 || s.experts == 0) return;
  keep_kernel<<<static_cast<unsigned>(s.experts), kThreads, 0, stream>>>(kept, expert, weight, s);
  check(cudaGetLastError());
}

void add_dropped(double* sum, const std::int32_t* kept, std::int64_t count, cudaStream_t stream) {
  dropped_kernel<<<1, kThreads, 0, stream>>>(sum, kept, count);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
