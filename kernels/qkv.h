// kernels/qkv.h: between the fused projection's rows and separate queries, keys and values.
// A row of qkv holds, for each of `groups` query groups, its heads / groups query heads, then one
// key head, then one value head (Megatron's order), each of head_dim channels.
// qkv: [tokens, (heads + 2 groups) head_dim]
// q: [tokens, heads, head_dim];  k, v: [tokens, groups, head_dim].  T: float or double; on the
// GPU float, bf16 or fp16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct QkvShape {
  std::int64_t tokens = 0, heads = 0, groups = 0, head_dim = 0;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void qkv_split(T* q, T* k, T* v, const T* qkv, const QkvShape& shape);
template <class T>
void qkv_merge(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void qkv_split(T* q, T* k, T* v, const T* qkv, const QkvShape& shape, cudaStream_t stream);
template <class T>
void qkv_merge(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape,
               cudaStream_t stream);
}  // namespace mt::cuda
