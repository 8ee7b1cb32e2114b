// kernels/rope.h: rotary position embedding in place (Su et al.: arXiv:2104.09864).
//   token t stands at position first_position + t % seq_length
//   angle = position inv_freq[i];  a pair of channels turns by it, i < r/2 = rotary_dim / 2:
//   (a, b) -> (a cos - b sin, b cos + a sin);  `inverse` turns back, which is the backward pass
//   pair i is (x[i], x[i + r/2]), or, interleaved, (x[2 i], x[2 i + 1])
//   cos and sin are multiplied by `magnitude`, whichever way pairs turn
// x: [tokens, heads, head_dim], of which channels >= rotary_dim pass through, and with a
// packed_group every so manyth head, the value of a fused projection's group (kernels/qkv.h);
// inv_freq: [rotary_dim / 2], f64.  Angles, sines and cosines are f64, rounded once to T.  T: float
// or double. On the GPU T is float, bf16 or fp16, and the sines and cosines of a run of positions
// are made once, by rope_table: [min(tokens, seq_length), rotary_dim] f32, row p the cosines and
// then the sines of position first_position + p.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct RopeShape {
  std::int64_t tokens = 0, heads = 0, head_dim = 0, rotary_dim = 0;
  std::int64_t seq_length = 1, first_position = 0;
  bool interleaved = false;
  double magnitude = 1;
  std::int64_t packed_group = 0;  // heads of a group, its value included; 0: there are no values
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void rope(T* x, const double* inv_freq, const RopeShape& shape, bool inverse);
}

namespace mt::cuda {
void rope_table(float* table, const double* inv_freq, const RopeShape& shape, cudaStream_t stream);
template <class T>
void rope(T* x, const float* table, const RopeShape& shape, bool inverse, cudaStream_t stream);
}  // namespace mt::cuda
