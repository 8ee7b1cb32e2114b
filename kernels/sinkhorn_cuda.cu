// One block has all rows of a router: its sums are over both.
#include <cmath>

#include "kernels/reduce.cuh"
#include "kernels/sinkhorn.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32, kRowThreads = 128;

template <class T>
__global__ __launch_bounds__(kThreads) void sinkhorn_kernel(float* keys, float* work, const T* z,
                                                            std::int64_t tokens,
                                                            std::int64_t experts) {
  __shared__ float shared[kWarps];
  float *const a = work, *const b = work + tokens;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t i = threadIdx.x; i < tokens * experts; i += kThreads)
    keys[i] = expf(to_float(z[i]));
  for (std::int64_t e = threadIdx.x; e < experts; e += kThreads) b[e] = 1;
  __syncthreads();
  float change = 1;
  for (int round = 0;
       change > static_cast<float>(kSinkhornTolerance) && round < kMostSinkhornRounds; ++round) {
    for (std::int64_t t = warp; t < tokens; t += kWarps) {
      float sum = 0;
      for (std::int64_t e = lane; e < experts; e += 32) sum += b[e] * keys[t * experts + e];
      sum = over_lanes(sum);
      if (lane == 0)
        a[t] = 1 / static_cast<float>(tokens) / (sum + static_cast<float>(kLeastSinkhornSum));
    }
    __syncthreads();
    float changed = 0;
    for (std::int64_t e = threadIdx.x; e < experts; e += kThreads) {
      float sum = 0;
      for (std::int64_t t = 0; t < tokens; ++t) sum += a[t] * keys[t * experts + e];
      const float next =
          1 / static_cast<float>(experts) / (sum + static_cast<float>(kLeastSinkhornSum));
      changed += fabsf(b[e] - next);
      b[e] = next;
    }
    __syncthreads();
    change = over_block(changed, shared) / static_cast<float>(experts);
    __syncthreads();
  }
  for (std::int64_t i = threadIdx.x; i < tokens * experts; i += kThreads)
    keys[i] *= b[i % experts] * a[i / experts];
}

template <class T>  // one block a row, four channels a thread
__global__ __launch_bounds__(kRowThreads) void jitter_kernel(T* y, const T* x, std::int64_t cols,
                                                             Jitter jitter) {
  const Dropout& d = jitter.places;
  const std::int64_t i = d.first_row + blockIdx.x;
  const auto sample = static_cast<std::uint32_t>(d.record->first_sample + i / d.seq_length),
             position = static_cast<std::uint32_t>(i % d.seq_length);
  y += blockIdx.x * cols;
  x += blockIdx.x * cols;
  for (std::int64_t four = threadIdx.x; 4 * four < cols; four += kRowThreads) {
    const Counter words = philox({static_cast<std::uint32_t>(four), position, 2, sample}, d.key);
    for (int n = 0; n < 4 && 4 * four + n < cols; ++n) {
      const double u = 2 * to_unit(words[n]) - 1;
      y[4 * four + n] = static_cast<T>(static_cast<float>(1 + d.p * u) * to_float(x[4 * four + n]));
    }
  }
}

}  // namespace

template <class T>
void sinkhorn(float* keys, float* work, const T* z, std::int64_t tokens, std::int64_t experts,
              cudaStream_t stream) {
  if (tokens == 0) return;
  sinkhorn_kernel<<<1, kThreads, 0, stream>>>(keys, work, z, tokens, experts);
  check(cudaGetLastError());
}

template <class T>
void jitter(T* y, const T* x, std::int64_t rows, std::int64_t cols, const Jitter& jitter,
            cudaStream_t stream) {
  if (rows == 0) return;
  jitter_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(y, x, cols, jitter);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                                        \
  template void sinkhorn(float*, float*, const T*, std::int64_t, std::int64_t, cudaStream_t); \
  template void jitter(T*, const T*, std::int64_t, std::int64_t, const Jitter&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
