// kernels/adam.h: one step of Adam with decoupled weight decay (Kingma, Ba: arXiv:1412.6980;
// Loshchilov, Hutter: arXiv:1711.05101), in the form of Megatron's fused optimizer.  With g scaled
// by record->gradient_scale:
//   m = beta1 m + (1 - beta1) g      v = beta2 v + (1 - beta2) g^2
//   p -= lr (m / bias_correction1 / (sqrt(v / bias_correction2) + eps) + decay p)
// lr = record->learning_rate lr_mult;  decay = record->weight_decay decay_mult.  p, m, v, g:
// [count]. T: float or double.
#pragma once

#include <cstdint>

#include "kernels/step_record.h"

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
