// kernels/attention_part.h: attention of some queries of one sequence with some of its keys, for
// ranks that share sequences (Liu, Zaharia, Abbeel: arXiv:2310.01889).  An AttentionRange says
// which tokens they are.  A query at position n sees the keys given whose positions m are such that
//   first <= m <= n,  first = first_key[i], but at least n - window
// Everything else as in kernels/attention.h, with one sequence, causal, not packed, and n and m in
// place of i and j where dropout counts.
//   forward   o and lse of the keys so far become those of these too
//   backward  adds to dq, dk and dv what these keys give, from o and lse of all keys
// T: float or double; on GPUs float, bf16 or fp16, with o and dq of a type Q and dk and dv of a
// type K, which are T or float, and lse in f32.  There keys and queries are the same tokens or no
// key comes after a query, without first_key and window.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace mt {
// Whether there are such results already, to which these keys' are added; otherwise they are
// overwritten.
struct AttentionSoFar {
  bool of_queries = true;  // o and lse, or dq; without, lse_stride is 0
  bool of_keys = true;     // dk and dv
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void attention_part_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                            const std::int32_t* first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout,
                            AttentionSoFar so_far);
template <class T>
void attention_part_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse,
                             const T* q, const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const AttentionRange& range,
                             const Dropout& dropout, AttentionSoFar so_far);
}  // namespace mt::cpu

// work: as in kernels/attention.h.
namespace mt::cuda {
template <class T>
std::size_t attention_part_forward_work(const AttentionShape& shape);
template <class Q, class T>
void attention_part_forward(Q* o, float* lse, const T* q, const T* k, const T* v,
                            const AttentionShape& shape, const AttentionRange& range,
                            const Dropout& dropout, AttentionSoFar so_far, void* work,
                            cudaStream_t stream);
template <class T>
std::size_t attention_part_backward_work(const AttentionShape& shape);
template <class Q, class K, class T>
void attention_part_backward(Q* dq, K* dk, K* dv, const T* d_o, const T* o, const float* lse,
                             const T* q, const T* k, const T* v, const AttentionShape& shape,
                             const AttentionRange& range, const Dropout& dropout,
                             AttentionSoFar so_far, void* work, cudaStream_t stream);
}  // namespace mt::cuda
