// What all kernels of attention on the GPU share: sizes as they count with them, which keys a query
// sees; and the kernels for Hopper behind attention.h.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace mt::cuda {

using bf16 = __nv_bfloat16;

inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr float kInfinity = __builtin_huge_valf();

// An AttentionShape in the numbers that the kernels count with.
struct AttentionSizes {
  int sequences, q_length, kv_length, heads, kv_heads, window, head_dim;
  bool causal;
  std::int64_t q_row, q_group, kv_row, kv_head;  // elements
  float scale, softcap;
  const std::int32_t *first_key, *kv_lengths;
  const float* bias;
  int bias_row;  // elements of a head's
  explicit AttentionSizes(const AttentionShape& s, const std::int32_t* first_keys)
      : sequences(static_cast<int>(s.sequences)),
        q_length(static_cast<int>(s.q_length)),
        kv_length(static_cast<int>(s.kv_length)),
        heads(static_cast<int>(s.heads)),
        kv_heads(static_cast<int>(s.kv_heads)),
        window(window_of(s)),
        head_dim(static_cast<int>(s.head_dim)),
        causal(s.causal),
        q_row(s.q_row()),
        q_group(s.q_group()),
        kv_row(s.kv_row()),
        kv_head(s.kv_head()),
        scale(static_cast<float>(s.scale)),
        softcap(static_cast<float>(s.softcap)),
        first_key(first_keys),
        kv_lengths(s.kv_lengths),
        bias(static_cast<const float*>(s.bias)),
        bias_row(static_cast<int>(2 * s.kv_length - 1)) {}

  // Returns the sizes of one sequence, under a mask that is known when a kernel is compiled.
  // Sequences have lengths of their own only if not causal.
  template <bool kCausal>
  __device__ AttentionSizes masked(int sequence) const {
    AttentionSizes s = *this;
    s.causal = kCausal;
    if (!kCausal && kv_lengths) s.kv_length = kv_lengths[sequence];
    return s;
  }

  // Returns what takes the place of a product of a query and a key, neither of which is scaled yet,
  // so that the score is capped; slope becomes the derivative of the one by the other.
  __device__ float capped(float product, float& slope) const {
    const float t = tanhf(product * scale / softcap);
    slope = 1 - t * t;
    return t * softcap / scale;
  }
  __host__ __device__ int group() const { return heads / kv_heads; }  // query heads of a key head
  __device__ int own(int query) const { return query + (causal ? kv_length - q_length : 0); }
  // Where bias has what is added to the score of a query and a key; kv_length may be the
  // sequence's.
  __device__ std::int64_t bias_place(int head, int query, int key) const {
    return std::int64_t{head} * bias_row + bias_row / 2 + key - own(query);
  }
  // HeadBias is one head's bias: at(places) is what is added to the score of a key that stands so
  // many places behind a query's own.  A tile may ask for places that no query and key have.
  struct HeadBias {
    const float* own;
    int least, most;
    __device__ float at(int places) const { return __ldg(own + min(max(places, least), most)); }
  };
  __device__ HeadBias head_bias(int head) const {
    const int own = bias_row / 2;
    return {bias + std::int64_t{head} * bias_row + own, -own, own};
  }
  // The first key that a query sees; it does not fall with the query.  Past the end as at it.
  __device__ int first(int sequence, int query) const {
    query = min(query, q_length - 1);
    const int document = first_key ? first_key[sequence * std::int64_t{q_length} + query] : 0;
    return max(document, own(query) - window);
  }
  // The last; if causal, the keys may end before it.
  __device__ int last(int sequence, int query) const {
    if (causal) return own(query);
    return (first_key ? end_query(sequence, query) : min(query + window + 1, kv_length)) - 1;
  }
  // The first query that sees none of the keys up to `key`, nor is key's own or before it.
  __device__ int end_query(int sequence, int key) const {
    int low = min(key + 1, q_length), high = q_length;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (first(sequence, middle) <= key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  // The queries that see a key, of which there may not be so many, begin here.
  __device__ int first_query(int sequence, int key) const {
    return causal ? key : first(sequence, key);
  }

 private:
  // So far that it hides nothing, if there is none.
  static int window_of(const AttentionShape& s) {
    const std::int64_t all = std::max(s.q_length, s.kv_length);
    return static_cast<int>(s.window < 0 ? all : std::min(s.window, all));
  }
};

namespace hopper {
// Whether the kernels below can do it, for bf16 in rows that begin at multiples of 16 bytes; with
// dropout, keys whose eights share random words come from a multiple of 8 on.
inline bool attention_fits(const AttentionShape& s) {
  return s.head_dim <= (s.bias ? 128 : 256) && s.head_dim % 8 == 0 && !(s.kv_lengths && s.causal) &&
         !s.kv_slots && s.softcap == 0 && (s.place.key | s.place.key_gap | s.place.chunk) % 8 == 0;
}

std::size_t attention_forward_work(const AttentionShape& shape);
void attention_forward(bf16* o, float* lse, const bf16* q, const bf16* k, const bf16* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout, void* work, cudaStream_t stream);
std::size_t attention_backward_work(const AttentionShape& shape);
void attention_backward(bf16* dq, bf16* dk, bf16* dv, const bf16* d_o, const bf16* o,
                        const float* lse, const bf16* q, const bf16* k, const bf16* v,
                        const std::int32_t* first_key, const AttentionShape& shape,
                        const Dropout& dropout, void* work, cudaStream_t stream);
}  // namespace hopper

}  // namespace mt::cuda
