// kernels/attention_sink.h: attention with a sink, a score of each head that belongs to no key
// (Xiao et al.: arXiv:2309.17453, section 3.2; OpenAI: arXiv:2508.10925, section 2.2).  With
//   P[i,j] = exp(S[i,j]) / (exp(sink) + sum_j exp(S[i,j]))
// it follows from attention without one (kernels/attention.h):
//   forward    lse[i] becomes l = log(exp lse[i] + exp sink), and o_i becomes exp(lse[i] - l) o_i
//   backward   d_sink[h] -= sum_i exp(sink - lse[i]) sum_c do[i,c] o[i,c]
// Whoever gives these lse and o to the backward of attention gets the gradients of this one,
// dropout of P included.
//
// o, do: [sequences, q_length, heads, head_dim] of T; lse: [sequences, heads, q_length] of the type
// of sums; sink: [heads] of T, or null for 0 everywhere; d_sink: [heads] of T, on a GPU of float or
// bf16.  T: float or double; on the GPU float, bf16 or fp16.  Sums are in a fixed order.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct SinkShape {
  std::int64_t sequences = 0, q_length = 0, heads = 0, head_dim = 0;
  constexpr std::int64_t rows() const { return sequences * q_length; }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void add_sink(T* o, T* lse, const T* sink, const SinkShape& shape);
template <class T>
void sink_backward(T* d_sink, const T* d_o, const T* o, const T* lse, const T* sink,
                   const SinkShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void add_sink(T* o, float* lse, const T* sink, const SinkShape& shape, cudaStream_t stream);
template <class G, class T>
void sink_backward(G* d_sink, const T* d_o, const T* o, const float* lse, const T* sink,
                   const SinkShape& shape, cudaStream_t stream);
}  // namespace mt::cuda
