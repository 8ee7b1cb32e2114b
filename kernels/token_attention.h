// kernels/token_attention.h: attention of one more token of each sequence in a generation, in one
// kernel for Hopper: what cached_qkv() and then attention_forward() compute (cached_qkv.h,
// attention.h), without lse.  The token of sequence i stands at position kv_lengths[i] - 1 of slot
// kv_slots[i].
//   o: [sequences, heads, head_dim];  qkv: [sequences, (heads + 2 kv_heads) head_dim]
//   keys, values: [slots, kv_stride, kv_heads, head_dim]
// A sequence's bits depend neither on the others nor on kv_length or kv_stride.
//
// Keys before the token's own are read before the kernel ahead has ended (dependent.cuh), but where
// is_cached: then that kernel is cached_qkv(), and several of the sequences may be one, with a
// token more each, as their keys and values are in the cache by now.
//
// The CPU, older GPUs and more queries a key head than 16 take the two, one after the other.  So do
// codes with f32.
#pragma once

#include "kernels/attention.h"
#include "kernels/cached_codes.h"

namespace mt {
template <class T>
struct TokenAttention {
  T *o = nullptr, *keys = nullptr, *values = nullptr;
  const T* qkv = nullptr;
  const float* angles = nullptr;  // [sequences, rotary_dim], or null
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  const std::int32_t* first_key = nullptr;  // [sequences], or null
  bool is_cached = false;                   // the tokens' own keys and values, too
  // A cache in codes (cached_codes.h) in place of keys and values, where they are is_cached.
  const std::uint8_t *key_codes = nullptr, *value_codes = nullptr;
  CacheScales scales = {};
};
}  // namespace mt

namespace mt::cuda {
// shape: of attention_forward(), causal and not packed.
bool token_attention_fits(const AttentionShape& shape);
template <class T>
void token_attention(const TokenAttention<T>& problem, const AttentionShape& shape,
                     cudaStream_t stream);
}  // namespace mt::cuda
