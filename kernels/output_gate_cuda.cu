// Packs of elements, where all addresses and widths let them be read.
#include "kernels/map.cuh"
#include "kernels/output_gate.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float g) { return 1 / (1 + expf(-g)); }

struct Gate {
  __device__ float operator()(const float (&in)[2]) const { return in[0] * sigmoid(in[1]); }
};

__device__ std::int64_t first_of(int width) {
  return (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * width;
}

template <int N, class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(T* dx, T* dg, const T* dy, const T* x,
                                                            const T* g, std::int64_t count) {
  const std::int64_t i = first_of(N);
  if (i >= count) return;
  const auto of_y = load<N>(dy + i), of_x = load<N>(x + i), of_g = load<N>(g + i);
  float to_x[N], to_g[N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float open = sigmoid(of_g[n]);
    to_x[n] = of_y[n] * open;
    to_g[n] = of_y[n] * of_x[n] * open * (1 - open);
  }
  store(dx + i, to_x);
  store(dg + i, to_g);
}

// Moves packs between [groups, 2, width] and two of [groups, width].
template <int N, bool kSplits, class Both, class Part>
__global__ __launch_bounds__(kThreads) void move_kernel(Both* both, Part* q, Part* g,
                                                        std::int64_t count, std::int64_t width) {
  const std::int64_t i = first_of(N);
  if (i >= count) return;
  const std::int64_t row = i / width, at = row / 2 * width + i % width;
  Part* const part = (row % 2 == 0 ? q : g) + at;
  if constexpr (kSplits)
    store(part, load<N>(both + i));
  else
    store(both + i, load<N>(part));
}

template <bool kSplits, class T, class Both, class Part>
void move(Both* both, Part* q, Part* g, std::int64_t groups, std::int64_t width,
          cudaStream_t stream) {
  const std::int64_t count = 2 * groups * width;
  if (count == 0) return;
  with_width<kWide<T>>(width % kWide<T> == 0 && aligned(both, q, g), [&]<int N>() {
    move_kernel<N, kSplits><<<static_cast<unsigned>(ceil_div(count, std::int64_t{N} * kThreads)),
                              kThreads, 0, stream>>>(both, q, g, count, width);
    check(cudaGetLastError());
  });
}

}  // namespace

template <class T>
void output_gate_forward(T* y, const T* x, const T* g, std::int64_t count, cudaStream_t stream) {
  map(y, Inputs<T, 2>{{x, g}}, count, Gate{}, stream);
}

template <class T>
void output_gate_backward(T* dx, T* dg, const T* dy, const T* x, const T* g, std::int64_t count,
                          cudaStream_t stream) {
  if (count == 0) return;
  with_width<kWide<T>>(count % kWide<T> == 0 && aligned(dx, dg, dy, x, g), [&]<int N>() {
    backward_kernel<N><<<static_cast<unsigned>(ceil_div(count, std::int64_t{N} * kThreads)),
                         kThreads, 0, stream>>>(dx, dg, dy, x, g, count);
    check(cudaGetLastError());
  });
}

template <class T>
void split_gates(T* q, T* g, const T* both, std::int64_t groups, std::int64_t width,
                 cudaStream_t stream) {
  move<true, T>(both, q, g, groups, width, stream);
}

template <class T>
void merge_gates(T* both, const T* q, const T* g, std::int64_t groups, std::int64_t width,
                 cudaStream_t stream) {
  move<false, T>(both, q, g, groups, width, stream);
}

#define INSTANTIATE(T)                                                                   \
  template void output_gate_forward(T*, const T*, const T*, std::int64_t, cudaStream_t); \
  template void output_gate_backward(T*, T*, const T*, const T*, const T*, std::int64_t, \
                                     cudaStream_t);                                      \
  template void split_gates(T*, T*, const T*, std::int64_t, std::int64_t, cudaStream_t); \
  template void merge_gates(T*, const T*, const T*, std::int64_t, std::int64_t, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

}  // namespace mt::cuda
