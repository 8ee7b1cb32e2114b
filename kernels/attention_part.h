// kernels/attention_part.h: attention of some queries of one sequence with some of its keys, for
// ranks that share sequences (Liu, Zaharia, Abbeel: arXiv:2310.01889).  Query i stands at position
// n = query + i and sees the keys given whose positions, m = key + j, are such that
//   first <= m <= n,  first = first_key[i], but at least n - window
// Everything else as in kernels/attention.h, with one sequence, causal, not packed, and n and m in
// place of i and j where dropout counts.
//   forward   o and lse of the keys so far become those of these too; before the first keys
//             o = 0, lse = -inf
//   backward  adds to dq, dk and dv what these keys give, from o and lse of all keys
// T: float or double; on GPUs float, bf16 or fp16, with o, lse, dq, dk and dv in f32.  There keys
// and queries are the same tokens or no key comes after a query, without first_key and window.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace mt::cpu {
template <class T>
void attention_part_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                            const std::int32_t* first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout);
template <class T>
void attention_part_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse,
                             const T* q, const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const AttentionRange& range,
                             const Dropout& dropout);
}  // namespace mt::cpu

// work: as in kernels/attention.h.
namespace mt::cuda {
template <class T>
std::size_t attention_part_forward_work(const AttentionShape& shape);
template <class T>
void attention_part_forward(float* o, float* lse, const T* q, const T* k, const T* v,
                            const AttentionShape& shape, const AttentionRange& range,
                            const Dropout& dropout, void* work, cudaStream_t stream);
template <class T>
std::size_t attention_part_backward_work(const AttentionShape& shape);
template <class T>
void attention_part_backward(float* dq, float* dk, float* dv, const T* d_o, const T* o,
                             const float* lse, const T* q, const T* k, const T* v,
                             const AttentionShape& shape, const AttentionRange& range,
                             const Dropout& dropout, void* work, cudaStream_t stream);
}  // namespace mt::cuda
