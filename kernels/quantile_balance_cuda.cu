// A warp has a token, a block an expert's column, whose quantile it finds eight bits at a time.
#include "kernels/quantile_balance.h"
#include "kernels/router_row.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kDigits = 256;

template <class T>
__global__ __launch_bounds__(kThreads) void keys_kernel(float* keys, const T* z, const float* beta,
                                                        QuantileShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i < s.tokens * s.experts) keys[i] = to_float(z[i]) - beta[i % s.experts];
}

template <class T>
__global__ __launch_bounds__(kThreads) void alpha_kernel(float* alpha, const T* z,
                                                         const float* beta, QuantileShape s) {
  const std::int64_t t = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (t >= s.tokens) return;
  z += t * s.experts;
  Candidate last{0, -1};
  for (std::int64_t i = 0; i <= s.chosen; ++i)
    last = next_best(0, s.experts, last, [&](std::int64_t e) { return to_float(z[e]) - beta[e]; });
  if (threadIdx.x % 32 == 0) alpha[t] = last.key;
}

// Whole numbers that have the order of floats, and back.
__device__ unsigned order_of(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float of_order(unsigned order) {
  return __uint_as_float(order >> 31 != 0 ? order & 0x7fffffffu : ~order);
}

template <class T>
__global__ __launch_bounds__(kThreads) void quantiles_kernel(double* sums, const T* z,
                                                             const float* alpha, double factor,
                                                             QuantileShape s) {
  static_assert(kDigits == kThreads);
  __shared__ int counts[kDigits], above;
  __shared__ unsigned found;
  const std::int64_t e = blockIdx.x;
  if (threadIdx.x == 0) {
    found = 0;
    above = static_cast<int>(s.tokens * s.chosen / s.experts);  // so many are larger
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    const unsigned prefix = found;
    for (std::int64_t t = threadIdx.x; t < s.tokens; t += kThreads) {
      const unsigned order = order_of(to_float(z[t * s.experts + e]) - alpha[t]);
      // The digits in front of this one; there are none at first.
      if (shift == 24 || (order ^ prefix) >> (shift + 8) == 0)
        atomicAdd(&counts[order >> shift & 0xff], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = kDigits - 1;
      for (; digit > 0 && above >= counts[digit]; --digit) above -= counts[digit];
      found = prefix | static_cast<unsigned>(digit) << shift;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[e] += factor * static_cast<double>(of_order(found));
}

}  // namespace

template <class T>
void quantile_keys(float* keys, const T* z, const float* beta, const QuantileShape& s,
                   cudaStream_t stream) {
  if (s.tokens == 0) return;
  keys_kernel<<<static_cast<unsigned>(ceil_div(s.tokens * s.experts, std::int64_t{kThreads})),
                kThreads, 0, stream>>>(keys, z, beta, s);
  check(cudaGetLastError());
}

std::size_t quantiles_work(const QuantileShape& s) {
  return static_cast<std::size_t>(s.tokens) * sizeof(float);
}

template <class T>
void add_quantiles(double* sums, const T* z, const float* beta, double factor,
                   const QuantileShape& s, void* work, cudaStream_t stream) {
  auto* const alpha = static_cast<float*>(work);
  alpha_kernel<<<static_cast<unsigned>(ceil_div(s.tokens, std::int64_t{kWarps})), kThreads, 0,
                 stream>>>(alpha, z, beta, s);
  quantiles_kernel<<<static_cast<unsigned>(s.experts), kThreads, 0, stream>>>(sums, z, alpha,
                                                                              factor, s);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                             \
  template void quantile_keys(float*, const T*, const float*, const QuantileShape&, cudaStream_t); \
  template void add_quantiles(double*, const T*, const float*, double, const QuantileShape&,       \
                              void*, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
