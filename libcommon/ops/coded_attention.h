// Attention of tokens that follow those in a cache of eight bits a number.
#pragma once

#include "kernels/attention.h"
#include "kernels/cached_codes.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// As CachedAttention (ops/ops.h), but keys and values are codes (kernels/cached_codes.h): those of
// the tokens go there, and queries find what codes stand for.  own_keys and own_values, [tokens, kv
// heads, head_dim], are scratch, and so are joined_keys and joined_values, [slots of the longest
// sequence, capacity, kv heads, head_dim].
struct CodedAttention {
  Tensor o, keys, values, q, lse;
  Tensor own_keys, own_values, joined_keys, joined_values;
  ConstTensor qkv, positions, slots;
  ConstTensor angles = {};  // empty: nothing turns
  ConstTensor first_key = {};
  CacheScales scales = {};
  bool interleaved = false;
  AttentionShape shape = {};
  bool needs_lse = false;  // otherwise lse may stay as it is
};
void coded_attention(const CodedAttention& problem, Stream& stream);

}  // namespace mt
