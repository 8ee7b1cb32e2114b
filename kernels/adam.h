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
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/step_record.h"
#include "kernels/update.h"

namespace mt {
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void adam(T* p, T* m, T* v, const T* g, std::int64_t count, const AdamOptions& options,
          double lr_mult, double decay_mult, const StepRecord* record);
}

// p: float;  m, v: float or bf16, rounded after the update;  copy: float, bf16 or fp16, or null:
// the new p, rounded;  g: float, or bf16 if the copy is.  Element i of a chunk is element first + i
// of g and of copy, state + i of m and v, and one or the other of p: the latter if there is a copy.
// chunks: [chunk_count] on the device.
namespace mt::cuda {
template <class First, class Second, class T, class G>
void adam(float* p, First* m, Second* v, T* copy, const G* g, const UpdateChunk* chunks,
          std::int64_t chunk_count, const AdamOptions& options, const StepRecord* record,
          cudaStream_t stream);
}
