// A thread has an expert of a token.
#include "kernels/cuda_check.h"
#include "kernels/given_experts.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__global__ __launch_bounds__(kThreads) void take_kernel(std::int32_t* expert,
                                                        const std::int32_t* given, GivenShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens * s.chosen) return;
  const std::int32_t one = given[s.place(i)];
  if (one >= 0) expert[i] = one;
}

__global__ __launch_bounds__(kThreads) void keep_kernel(std::int32_t* cache,
                                                        const std::int32_t* expert, KeptPlaces at,
                                                        KeptShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.tokens * s.chosen) return;
  const std::int64_t t = i / s.chosen;
  cache[row_in_cache(at.slots, s.runs, s.capacity, t / s.length, at.positions[t]) * s.chosen +
        i % s.chosen] = expert[i];
}

unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>(ceil_div(threads, std::int64_t{kThreads}));
}

}  // namespace

void take_experts(std::int32_t* expert, const std::int32_t* given, const GivenShape& s,
                  cudaStream_t stream) {
  if (s.tokens == 0) return;
  take_kernel<<<blocks_of(s.tokens * s.chosen), kThreads, 0, stream>>>(expert, given, s);
  check(cudaGetLastError());
}

void keep_experts(std::int32_t* cache, const std::int32_t* expert, const KeptPlaces& places,
                  const KeptShape& s, cudaStream_t stream) {
  if (s.tokens == 0) return;
  keep_kernel<<<blocks_of(s.tokens * s.chosen), kThreads, 0, stream>>>(cache, expert, places, s);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
