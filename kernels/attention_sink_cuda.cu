// A warp takes a query of a head; a block has all that a head's sink is changed by.
#include <cmath>

#include "kernels/attention_sink.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <class T>
__device__ float score_of(const T* sink, std::int64_t head) {
  return sink != nullptr ? to_float(sink[head]) : 0;
}

template <class T>
__global__ __launch_bounds__(kThreads) void sink_kernel(T* o, float* lse, const T* sink,
                                                        SinkShape s) {
  const std::int64_t place = blockIdx.x * std::int64_t{kWarps} + threadIdx.x / 32;
  if (place >= s.rows() * s.heads) return;  // a warp, as one
  const std::int64_t head = place % s.heads, row = place / s.heads;
  float& of_keys = lse[(row / s.q_length * s.heads + head) * s.q_length + row % s.q_length];
  const float before = of_keys, score = score_of(sink, head), top = fmaxf(before, score);
  const float all = top + logf(expf(before - top) + expf(score - top)), part = expf(before - all);
  for (std::int64_t c = threadIdx.x % 32; c < s.head_dim; c += 32) {
    T& found = o[place * s.head_dim + c];
    found = static_cast<T>(part * to_float(found));
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) of_keys = all;
}

template <class G, class T>
__global__ __launch_bounds__(kThreads) void sink_backward_kernel(G* d_sink, const T* d_o,
                                                                 const T* o, const float* lse,
                                                                 const T* sink, SinkShape s) {
  __shared__ float shared[kWarps];
  const std::int64_t head = blockIdx.x;
  const float score = score_of(sink, head);
  float total = 0;  // every lane of a warp has that of the warp's rows
  for (std::int64_t row = threadIdx.x / 32; row < s.rows(); row += kWarps) {
    const std::int64_t at = (row * s.heads + head) * s.head_dim;
    float delta = 0;
    for (std::int64_t c = threadIdx.x % 32; c < s.head_dim; c += 32)
      delta += to_float(d_o[at + c]) * to_float(o[at + c]);
    const float l = lse[(row / s.q_length * s.heads + head) * s.q_length + row % s.q_length];
    total += expf(score - l) * over_lanes(delta);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (const float one : shared) sum += one;
  d_sink[head] = static_cast<G>(to_float(d_sink[head]) - sum);
}

}  // namespace

template <class T>
void add_sink(T* o, float* lse, const T* sink, const SinkShape& s, cudaStream_t stream) {
  if (s.rows() * s.heads == 0) return;
  sink_kernel<<<static_cast<unsigned>(ceil_div(s.rows() * s.heads, std::int64_t{kWarps})), kThreads,
                0, stream>>>(o, lse, sink, s);
  check(cudaGetLastError());
}

template <class G, class T>
void sink_backward(G* d_sink, const T* d_o, const T* o, const float* lse, const T* sink,
                   const SinkShape& s, cudaStream_t stream) {
  if (s.heads == 0) return;
  sink_backward_kernel<<<static_cast<unsigned>(s.heads), kThreads, 0, stream>>>(d_sink, d_o, o, lse,
                                                                                sink, s);
  check(cudaGetLastError());
}

#define INSTANTIATE(T)                                                            \
  template void add_sink(T*, float*, const T*, const SinkShape&, cudaStream_t);   \
  template void sink_backward(float*, const T*, const T*, const float*, const T*, \
                              const SinkShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);
template void sink_backward(bf16*, const bf16*, const bf16*, const float*, const bf16*,
                            const SinkShape&, cudaStream_t);

}  // namespace mt::cuda
