#include "kernels/fast_math.cuh"
#include "kernels/map.cuh"
#include "kernels/reduce.cuh"
#include "kernels/weighted_swiglu.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

// Packs of N numbers, kOfRow threads a row.
template <int N, int kOfRow, class T>
__global__ __launch_bounds__(kThreads) void forward_kernel(T* y, const T* x, const float* w,
                                                           std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = blockIdx.x * std::int64_t{kThreads / kOfRow} + threadIdx.x / kOfRow;
  if (row >= rows) return;
  x += row * 2 * cols;
  y += row * cols;
  const float by = w[row];
#pragma unroll 2
  for (std::int64_t c = threadIdx.x % kOfRow * N; c < cols; c += kOfRow * N) {
    const auto gate = load<N>(x + c), up = load<N>(x + cols + c);
    float out[N];
#pragma unroll
    for (int n = 0; n < N; ++n) out[n] = by * (gate[n] * Silu::gate(gate[n]) * up[n]);
    store(y + c, out);
  }
}

template <int N, int kOfRow, class T>
__global__ __launch_bounds__(kThreads) void backward_kernel(T* dx, float* dw, const T* dy,
                                                            const T* x, const float* w,
                                                            std::int64_t rows, std::int64_t cols) {
  const std::int64_t row = blockIdx.x * std::int64_t{kThreads / kOfRow} + threadIdx.x / kOfRow;
  const bool is_there = row < rows;
  float sum = 0;
  if (is_there) {
    x += row * 2 * cols;
    dx += row * 2 * cols;
    dy += row * cols;
    const float by = w[row];
#pragma unroll 2
    for (std::int64_t c = threadIdx.x % kOfRow * N; c < cols; c += kOfRow * N) {
      const auto gate = load<N>(x + c), up = load<N>(x + cols + c), d = load<N>(dy + c);
      float d_gate[N], d_up[N];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float s = Silu::gate(gate[n]), silu = gate[n] * s, weighed = by * d[n];
        sum += d[n] * (silu * up[n]);
        d_gate[n] = weighed * up[n] * Silu::slope(gate[n], s);
        d_up[n] = weighed * silu;
      }
      store(dx + c, d_gate);
      store(dx + cols + c, d_up);
    }
  }
  if constexpr (kOfRow == 32) {
    sum = over_lanes(sum);
  } else {
    __shared__ float shared[kThreads / 32];
    sum = over_block(sum, shared);
  }
  if (is_there && threadIdx.x % kOfRow == 0) dw[row] = sum;
}

// body.operator()<N, kOfRow>(blocks): a warp a row, or, where that would be long, a block.
template <class T, class Body>
void for_rows(std::int64_t rows, std::int64_t cols, bool wide, const Body& body) {
  if (rows == 0) return;
  with_width<kWide<T>>(wide && cols % kWide<T> == 0, [&]<int N>() {
    if (cols > 32 * 8 * N)
      body.template operator()<N, kThreads>(static_cast<unsigned>(rows));
    else
      body.template operator()<N, 32>(
          static_cast<unsigned>(ceil_div(rows, std::int64_t{kThreads / 32})));
  });
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void weighted_swiglu_forward(T* y, const T* x, const float* w, std::int64_t rows, std::int64_t cols,
                             cudaStream_t stream) {
  for_rows<T>(rows, cols, aligned(y, x), [&]<int N, int kOfRow>(unsigned blocks) {
    forward_kernel<N, kOfRow><<<blocks, kThreads, 0, stream>>>(y, x, w, rows, cols);
  });
}

template <class T>
void weighted_swiglu_backward(T* dx, float* dw, const T* dy, const T* x, const float* w,
                              std::int64_t rows, std::int64_t cols, cudaStream_t stream) {
  for_rows<T>(rows, cols, aligned(dx, dy, x), [&]<int N, int kOfRow>(unsigned blocks) {
    backward_kernel<N, kOfRow><<<blocks, kThreads, 0, stream>>>(dx, dw, dy, x, w, rows, cols);
  });
}

#define INSTANTIATE(T)                                                                          \
  template void weighted_swiglu_forward(T*, const T*, const float*, std::int64_t, std::int64_t, \
                                        cudaStream_t);                                          \
  template void weighted_swiglu_backward(T*, float*, const T*, const T*, const float*,          \
                                         std::int64_t, std::int64_t, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
