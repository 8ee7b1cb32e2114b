// kernels/adam.h: one step of Adam with decoupled weight decay (Kingma, Ba: arXiv:1412.6980;
// Loshchilov, Hutter: arXiv:1711.05101), in the form of Megatron's fused optimizer.  With g scaled
// by record->gradient_scale:
//   m = beta1 m + (1 - beta1) g      v = beta2 v + (1 - beta2) g^2
//   p -= lr (m / bias_correction1 / (sqrt(v / bias_correction2) + eps) + decay p)
// lr = record->learning_rate lr_mult;  decay = record->weight_decay decay_mult.  p, m, v, g:
// [count]. T: float or double.
//
// On the GPU one launch updates many parameters of flat buffers, and writes their copies that the
// model computes with.
//
// A moment of fp16 or fp8 (E4M3), or a master of fp16, has a scale for each parameter, after
// Transformer Engine's FusedAdam:
//   scale = max_i |m[i]| / range      what is kept of m[i]: m[i] / scale, rounded
// with ranges 32752, half of what fp16 holds, and 448.  Scales have 13 bits and are at least
// 2^-100. So kept numbers times their scale, as checkpoints store them, are exact in f32; the
// largest is range times the scale, unless that is 2^-100; and the same bits and scale are made of
// them again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/step_record.h"
#include "kernels/update.h"

struct __nv_fp8_e4m3;

namespace mt {
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};

inline constexpr float kFp16Range = 32752, kFp8Range = 448;
constexpr float kept_scale(float largest, float range) {
  const auto bits = std::bit_cast<std::uint32_t>(std::max(largest / range, 0x1p-100f));
  return std::bit_cast<float>((bits + 0x3ff + (bits >> 11 & 1)) & ~0x7ffU);
}
}  // namespace mt

namespace mt::cpu {
template <class T>
void adam(T* p, T* m, T* v, const T* g, std::int64_t count, const AdamOptions& options,
          double lr_mult, double decay_mult, const StepRecord* record);
}

// p: float, or fp16 if the copy has 16 bits;  m, v: float, bf16, fp16 or fp8;  all rounded after
// the update;  copy: float, bf16 or fp16, or null: the new p, before it is rounded to fp16;  g:
// float, or bf16 if the copy is.  Element i of a chunk is element first + i of g and of copy, state
// + i of m and v, and one or the other of p: the latter if there is a copy.  chunks: [chunk_count]
// on the device.
namespace mt::cuda {
template <class Q>
struct Kept {
  Q* values;
  // Both are of fp16 and fp8 alone, a number a piece: the unit of its elements, and zeros, from
  // which the first of two launches makes the largest that the elements will be.
  float *scales = nullptr, *largest = nullptr;
};
template <class Master, class First, class Second, class T, class G>
void adam(Kept<Master> p, Kept<First> m, Kept<Second> v, T* copy, const G* g,
          const UpdateChunk* chunks, std::int64_t chunk_count, const AdamOptions& options,
          const StepRecord* record, cudaStream_t stream);
// Once all chunks of the pieces were updated: the scales become those of the largest elements.
template <class Q>
void take_scales(Kept<Q> kept, std::int64_t pieces, const StepRecord* record, cudaStream_t stream);
}  // namespace mt::cuda
