// kernels/cached_qkv.h: from the fused projection's rows (qkv.h) to queries, and to keys and values
// in a cache, turned by their positions (rope.h).
//   token t of sequence i stands at position p = positions[i tokens / sequences + t]
//   q[token] = its queries, turned by angles[token]
//   keys[slot, c], values[slot, c] = its key, turned, and its value, where slot = slots[i, run]
//   with p = run capacity + c, or slot = i and c = p; of_tokens: keys and values [tokens, groups,
//   head_dim] are the tokens' own
// qkv: [tokens, (heads + 2 groups) head_dim];  q: [tokens, heads, head_dim];  positions: [tokens]
// keys, values: [slots, capacity, groups, head_dim];  slots: [sequences, runs], or null
// angles: [tokens, rotary_dim], the cosines and then the sines of a token's position; made by
// rope_angles from inv_freq, [rotary_dim / 2] f64 of host memory, in f64, times the magnitude, and
// rounded once to T.
// T: float or double; on the GPU float, bf16 or fp16, and angles in float.
#pragma once

#include "kernels/cache_place.h"
#include "kernels/qkv.h"

namespace mt {
struct CachedQkvShape {
  QkvShape qkv;
  std::int64_t sequences = 0, capacity = 0, runs = 1, rotary_dim = 0;
  bool interleaved = false, of_tokens = false;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void rope_angles(T* angles, const double* inv_freq, const std::int32_t* positions,
                 std::int64_t tokens, std::int64_t rotary_dim, double magnitude);
template <class T>
void cached_qkv(T* q, T* keys, T* values, const T* qkv, const T* angles,
                const std::int32_t* positions, const std::int32_t* slots,
                const CachedQkvShape& shape);
}  // namespace mt::cpu

// rotary_dim is at most 256 there.  rope_angles reads the positions before the kernel ahead has
// ended (dependent.cuh): that must not be what writes them.
namespace mt::cuda {
void rope_angles(float* angles, const double* inv_freq, const std::int32_t* positions,
                 std::int64_t tokens, std::int64_t rotary_dim, double magnitude,
                 cudaStream_t stream);
template <class T>
void cached_qkv(T* q, T* keys, T* values, const T* qkv, const float* angles,
                const std::int32_t* positions, const std::int32_t* slots,
                const CachedQkvShape& shape, cudaStream_t stream);
}  // namespace mt::cuda
