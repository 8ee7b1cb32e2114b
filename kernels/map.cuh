// kernels/map.cuh: y[i] = f(x[i]...) over whole arrays.
#pragma once

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {

inline constexpr int kMapThreads = 256, kMapPacks = 2;  // a thread's, 256 packs apart

template <class T, int K>
struct Inputs {
  const T* x[K];
};

template <int N, class To, class From, int K, class F>
__global__ __launch_bounds__(kMapThreads) void map_kernel(To* y, Inputs<From, K> in,
                                                          std::int64_t count, F f) {
  const std::int64_t first = (blockIdx.x * std::int64_t{kMapPacks * kMapThreads} + threadIdx.x) * N;
  constexpr std::int64_t kStep = kMapThreads * N;
  Pack<From, N> packs[kMapPacks][K];
#pragma unroll
  for (int p = 0; p < kMapPacks; ++p)
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + p * kStep + N <= count) packs[p][k] = load<N>(in.x[k] + first + p * kStep);
#pragma unroll
  for (int p = 0; p < kMapPacks; ++p) {
    const std::int64_t i = first + p * kStep;
    float x[K], out[N];
    if (i + N <= count) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int k = 0; k < K; ++k) x[k] = packs[p][k][n];
        out[n] = f(x);
      }
      store(y + i, out);
    } else {  // the last pack, where it is not full
      for (std::int64_t j = i; j < count; ++j) {
#pragma unroll
        for (int k = 0; k < K; ++k) x[k] = to_float(in.x[k][j]);
        y[j] = static_cast<To>(f(x));
      }
    }
  }
}

// f(x): the result, from the inputs' elements x[0] to x[K - 1].  y may be one of the inputs.
template <class To, class From, int K, class F>
void map(To* y, const Inputs<From, K>& in, std::int64_t count, const F& f, cudaStream_t stream) {
  if (count == 0) return;
  bool wide = aligned(y);
  for (const From* x : in.x) wide = wide && aligned(x);
  with_width<kWide<To, From>>(wide, [&]<int N>() {
    const std::int64_t blocks = ceil_div(count, std::int64_t{kMapThreads * kMapPacks} * N);
    map_kernel<N><<<static_cast<unsigned>(blocks), kMapThreads, 0, stream>>>(y, in, count, f);
    check(cudaGetLastError());
  });
}

}  // namespace mt::cuda
