#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda_check.h"
#include "kernels/relative_bias.h"

namespace mt::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <class T>  // a thread for each element of bias
__global__ void forward_kernel(float* bias, const T* table, const RelativeShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  if (i >= s.heads * s.span()) return;
  const std::int64_t head = i / s.span(), r = i % s.span() - s.length + 1;
  bias[i] = static_cast<float>(table[s.buckets(r) * s.all_heads + s.first_head + head]);
}

template <class G>  // a thread for each of the heads' elements of d_table
__global__ void backward_kernel(G* d_table, const float* d_bias, const RelativeShape s) {
  const std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const std::int64_t bucket = i / s.heads, head = i % s.heads;
  if (bucket >= s.buckets.side * (s.buckets.both_sides ? 2 : 1)) return;
  float sum = 0;
  for (std::int64_t r = 1 - s.length; r < s.length; ++r)
    if (s.buckets(r) == bucket) sum += d_bias[head * s.span() + r + s.length - 1];
  G& to = d_table[bucket * s.all_heads + s.first_head + head];
  to = static_cast<G>(static_cast<float>(to) + sum);
}

}  // namespace

template <class T>
void relative_bias(float* bias, const T* table, const RelativeShape& s, cudaStream_t stream) {
  forward_kernel<<<blocks_for(s.heads * s.span()), kThreads, 0, stream>>>(bias, table, s);
  check(cudaGetLastError());
}

template <class G>
void relative_bias_backward(G* d_table, const float* d_bias, const RelativeShape& s,
                            cudaStream_t stream) {
  const std::int64_t buckets = s.buckets.side * (s.buckets.both_sides ? 2 : 1);
  backward_kernel<<<blocks_for(s.heads * buckets), kThreads, 0, stream>>>(d_table, d_bias, s);
  check(cudaGetLastError());
}

template void relative_bias(float*, const float*, const RelativeShape&, cudaStream_t);
template void relative_bias(float*, const __nv_bfloat16*, const RelativeShape&, cudaStream_t);
template void relative_bias(float*, const __half*, const RelativeShape&, cudaStream_t);
template void relative_bias_backward(float*, const float*, const RelativeShape&, cudaStream_t);
template void relative_bias_backward(__nv_bfloat16*, const float*, const RelativeShape&,
                                     cudaStream_t);

}  // namespace mt::cuda
