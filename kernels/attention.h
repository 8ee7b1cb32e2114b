// kernels/attention.h: attention with grouped queries; no score matrix is stored.
//   S[i,j] = cap(scale q_i k_j + bias[j - own(i)]) for first(i) <= j <= last(i), else -inf
//   cap(s) = softcap tanh(s / softcap), or s if softcap is 0
//   P = softmax_j S
//   first(i) = first_key[i], but at least own(i) - window
//   causal:     own(i) = last(i) = i + kv_length - q_length, query i's own key
//   not causal: own(i) = i;  last(i) is the last j that has first(j) <= i, as j sees i if i sees j;
//               without first_key and window it is the last of the sequence's keys
//   o_i = sum_j dropout(P)[i,j] v_j       lse[i] = log sum_j exp S[i,j]
// Backward, with delta_i = sum_c do[i,c] o[i,c]:
//   dV = dropout(P)^T do      dS = P (dropout(do V^T) - delta) (1 - (S / softcap)^2)
//   dQ = scale dS K           dK = scale dS^T Q       d_bias[r] = sum of dS[i,j], j - own(i) = r
// For float over blocks of keys with a running maximum and sum (Milakov, Gimelshein:
// arXiv:1805.02867; Dao: arXiv:2307.08691).
//
// q, o, dq, do: [sequences, q_length, heads, head_dim]
// k, v, dk, dv: [sequences, kv_stride, kv_heads, head_dim], of whose kv_stride tokens the first
//               kv_length of a sequence count (but kv_slots);  q_length <= kv_length if causal;
//               q_length = kv_length if not, and there is a first_key or a window
// Packed, q, k and v point into the rows of a fused projection (kernels/qkv.h), and dq, dk and dv
// into the rows of its gradient; kv_stride is q_length then.
// Paired, k and v point into the rows of a projection of their own, which have each head's key and
// behind it its value, and dk and dv into the rows of its gradient.
// bias, d_bias: [heads, 2 kv_length - 1] of lse's type, or null for 0 everywhere: from r = 1 -
//               kv_length on, kv_length being that of the longest sequence
// lse:          [sequences, heads, q_length]
// first_key:    [sequences, q_length], or null for 0 everywhere: the first key of each query's
//               document.  Within a sequence it does not fall, and no query comes before its first
//               key (the caller checks).
// Query head h uses key head h / (heads / kv_heads).  T: float or double.
// Element (sample, head, i, j) of P is dropped iff the j % 8-th of the eight 16-bit halves, a
// word's low one first, of philox<7>({j / 8, i, 1 + first_head + head, sample}, key) is less than
// t, where sample = record->first_sample * of_sample + sequence, and t / 2^16 is p, rounded, but
// never to 0 (HalfThreshold); kept ones are divided by 1 - t / 2^16.
// Where v and do have zeros behind their first `values` channels, so have o and dv.
// Gradients are overwritten, summed in an order that depends on the shape alone, and on a GPU on
// whether there is a first_key.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/dropout.h"

namespace mt {
// Which tokens of a sequence some queries and keys are: the first of each stands at `query` and
// `key`, the others follow, but those from the chunk-th on stand so many positions further.
struct AttentionRange {
  std::int64_t sequence = 0;  // of the micro-batch
  std::int64_t query = 0, key = 0;
  std::int64_t query_gap = 0, key_gap = 0;
  std::int64_t chunk = 0;
  std::int64_t lse_stride = 0;  // elements of lse from a head's to the next's; 0: q_length

  std::int64_t query_position(std::int64_t i) const {
    return query + i + (i >= chunk ? query_gap : 0);
  }
  std::int64_t key_position(std::int64_t j) const { return key + j + (j >= chunk ? key_gap : 0); }
  // Whether the queries are the keys' tokens.
  bool same_tokens() const { return query == key && query_gap == key_gap; }
};

// What dropout compares 16-bit numbers with, and what it multiplies with those that are kept.
struct HalfThreshold {
  std::uint32_t value;
  double factor;
  explicit HalfThreshold(double p)
      : value(p > 0 ? static_cast<std::uint32_t>(std::clamp(std::round(p * 0x1p16), 1.0, 0xffffp0))
                    : 0),
        factor(1 / (1 - value * 0x1p-16)) {}
};

struct AttentionShape {
  std::int64_t sequences = 0, q_length = 0, kv_length = 0, kv_stride = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t values = 0;      // channels of v and do from which on there are zeros; 0: head_dim
  std::int64_t first_head = 0;  // of the layer's, the first of these
  std::int64_t window = -1;     // keys before its own that a query may see; -1: all
  bool causal = true;
  // On GPUs: what dropout counts sequences, queries and keys from, where these are a part of them.
  AttentionRange place = {};
  // [sequences], read where the tensors are: each sequence's own kv_length, from 1 to the one
  // above: what follows is padding, or a captured step is replayed as a cache grows.  Null: that
  // one for all.  They, kv_slots and first_key are not what the kernel queued on a GPU just before
  // writes: this one may begin earlier (dependent.cuh).
  const std::int32_t* kv_lengths = nullptr;
  // [sequences, kv_runs], likewise: which of the kv_stride tokens' runs in k and v, which may then
  // hold more of them than there are sequences, are each sequence's, one behind the other.  Null:
  // the i-th.  Not in a backward.
  const std::int32_t* kv_slots = nullptr;
  // With several runs, kv_stride is a multiple of 64, but for T of double of 1.
  std::int64_t kv_runs = 1;
  const void* bias = nullptr;  // see above
  double scale = 1, softcap = 0;
  // Forward on the CPU: a query gets the bits that it gets alone, however many there are.
  bool queries_alone = false;
  bool packed = false, paired = false;

  std::int64_t group() const { return heads / kv_heads; }  // query heads of a key head
  std::int64_t value_channels() const { return values > 0 ? values : head_dim; }
  // Elements from one token to the next in q and dq, and from one key head's queries to the next's;
  // from one token to the next in k, v, dk and dv, and from one head to the next.
  std::int64_t q_row() const { return (heads + (packed ? 2 * kv_heads : 0)) * head_dim; }
  std::int64_t q_group() const { return (group() + (packed ? 2 : 0)) * head_dim; }
  std::int64_t kv_row() const { return packed ? q_row() : kv_heads * kv_head(); }
  std::int64_t kv_head() const { return packed ? q_group() : (paired ? 2 : 1) * head_dim; }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void attention_forward(T* o, T* lse, const T* q, const T* k, const T* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout);
// Backward needs kv_stride == kv_length, which is q_length if causal, kv_lengths only if not, and
// no kv_slots (no cache).  Keys behind a sequence's own get zeros.
template <class T>
void attention_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const T* lse, const T* q,
                        const T* k, const T* v, const std::int32_t* first_key,
                        const AttentionShape& shape, const Dropout& dropout);
template <class T>
void attention_bias_backward(T* d_bias, const T* d_o, const T* o, const T* lse, const T* q,
                             const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const Dropout& dropout);
}  // namespace mt::cpu

// T: float, __nv_bfloat16 or __half, sums and lse in f32; head_dim up to 256, of a forward without
// bias, softcap and dropout up to 576.  16-bit T go to the matrix units, where probabilities and
// their gradients are rounded to T too.  bf16 with head_dim a multiple of 8 has kernels for Hopper
// (gpu.h).
//
// Forward without dropout, where a key head has at most 16 queries, or a head wider than 256 has
// one, shares out the keys; a sequence's bits then depend neither on the others nor, where it has
// its own length, on kv_length.
//
// work: scratch of so many bytes on the device, aligned to 16, free for other use afterwards.  How
// many depends on the shape alone.
namespace mt::cuda {
template <class T>
std::size_t attention_forward_work(const AttentionShape& shape);
template <class T>
void attention_forward(T* o, float* lse, const T* q, const T* k, const T* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout, void* work, cudaStream_t stream);
// Backward needs what the CPU's does.
template <class T>
std::size_t attention_backward_work(const AttentionShape& shape);
template <class T>
void attention_backward(T* dq, T* dk, T* dv, const T* d_o, const T* o, const float* lse, const T* q,
                        const T* k, const T* v, const std::int32_t* first_key,
                        const AttentionShape& shape, const Dropout& dropout, void* work,
                        cudaStream_t stream);
// The gradient of the bias is that of scores which are not capped; with dropout, keys come from a
// multiple of 8 on.
template <class T>
std::size_t attention_bias_backward_work(const AttentionShape& shape);
template <class T>
void attention_bias_backward(float* d_bias, const T* d_o, const T* o, const float* lse, const T* q,
                             const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& shape, const Dropout& dropout, void* work,
                             cudaStream_t stream);
}  // namespace mt::cuda
