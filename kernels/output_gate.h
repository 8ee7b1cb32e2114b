// kernels/output_gate.h: the gate of what attention makes (Qiu et al.: arXiv:2505.06708, eq. 5).
//   y = x sigmoid(g)      dx = dy sigmoid(g)      dg = dy x sigmoid(g) (1 - sigmoid(g))
// x, g, y and their gradients: [tokens, heads, head_dim].  A projection makes, for each group of
// heads, their queries and then their gates:
//   both[t, group, 0, h, :] = q[t, group, h, :]      both[t, group, 1, h, :] = g[t, group, h, :]
// T: float or double.  On the GPU float, bf16 or fp16, computed in f32; dx may be dy.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cpu {
template <class T>
void output_gate_forward(T* y, const T* x, const T* g, std::int64_t count);
template <class T>
void output_gate_backward(T* dx, T* dg, const T* dy, const T* x, const T* g, std::int64_t count);
// both: [groups, 2, width], of all tokens' groups;  q, g: [groups, width].
template <class T>
void split_gates(T* q, T* g, const T* both, std::int64_t groups, std::int64_t width);
template <class T>
void merge_gates(T* both, const T* q, const T* g, std::int64_t groups, std::int64_t width);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void output_gate_forward(T* y, const T* x, const T* g, std::int64_t count, cudaStream_t stream);
template <class T>
void output_gate_backward(T* dx, T* dg, const T* dy, const T* x, const T* g, std::int64_t count,
                          cudaStream_t stream);
template <class T>
void split_gates(T* q, T* g, const T* both, std::int64_t groups, std::int64_t width,
                 cudaStream_t stream);
template <class T>
void merge_gates(T* both, const T* q, const T* g, std::int64_t groups, std::int64_t width,
                 cudaStream_t stream);
}  // namespace mt::cuda
