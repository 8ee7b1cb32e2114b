// Compiled without contraction: see CMakeLists.txt.
#include "kernels/cuda_check.h"
#include "kernels/fill_random.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// A thread for a pair.
template <class T>
__global__ __launch_bounds__(kThreads) void normal_kernel(T* y, std::int64_t first,
                                                          std::int64_t count, double mean,
                                                          double std, RandomKey key) {
  const std::int64_t n = first / 2 + blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const Counter words = words_of(static_cast<std::uint64_t>(n), key);
  const double radius = std * sqrt(-2 * log_of_unit(to_unit(words[0])));
  const auto pair = cos_and_sin(to_unit(words[1]));
  for (std::int64_t i = 2 * n - first, part = 0; part < 2; ++part, ++i)
    if (0 <= i && i < count) y[i] = static_cast<T>(static_cast<float>(mean + radius * pair[part]));
}

// A thread for four.
template <class T>
__global__ __launch_bounds__(kThreads) void uniform_kernel(T* y, std::int64_t first,
                                                           std::int64_t count, double bound,
                                                           RandomKey key) {
  const std::int64_t n = first / 4 + blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const Counter words = words_of(static_cast<std::uint64_t>(n), key);
  for (std::int64_t i = 4 * n - first, part = 0; part < 4; ++part, ++i)
    if (0 <= i && i < count)
      y[i] = static_cast<T>(static_cast<float>(bound * (2 * to_unit(words[part]) - 1)));
}

// Blocks for the runs of `size` that [first, first + count) touches.
unsigned blocks_of(std::int64_t first, std::int64_t count, std::int64_t size) {
  return static_cast<unsigned>(
      ceil_div((first + count - 1) / size - first / size + 1, std::int64_t{kThreads}));
}

}  // namespace

template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key, cudaStream_t stream) {
  if (count == 0) return;
  normal_kernel<<<blocks_of(first, count, 2), kThreads, 0, stream>>>(y, first, count, mean, std,
                                                                     key);
  check(cudaGetLastError());
}

template <class T>
void fill_uniform(T* y, std::int64_t first, std::int64_t count, double bound, RandomKey key,
                  cudaStream_t stream) {
  if (count == 0) return;
  uniform_kernel<<<blocks_of(first, count, 4), kThreads, 0, stream>>>(y, first, count, bound, key);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                 \
  template void fill_normal(T*, std::int64_t, std::int64_t, double, double, RandomKey, \
                            cudaStream_t);                                             \
  template void fill_uniform(T*, std::int64_t, std::int64_t, double, RandomKey, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
