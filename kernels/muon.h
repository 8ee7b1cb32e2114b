// kernels/muon.h: the element-wise parts of a step of Muon (Jordan and others, 2024; the form of
// NVIDIA's Emerging-Optimizers).  With g scaled by record->gradient_scale:
//   muon_momentum   m += (1 - momentum) (g - m)      u = nesterov ? g + momentum (m - g) : m
//   muon_apply      p = p - lr decay p;  p -= lr (factor u)
// Between the two u becomes orthogonal.  lr = record->learning_rate lr_mult;  decay =
// record->weight_decay decay_mult.  p, m, u, g: [count].  T: float or double.
#pragma once

#include <cstdint>

#include "kernels/step_record.h"

namespace mt::cpu {
template <class T>
void muon_momentum(T* u, T* m, const T* g, std::int64_t count, double momentum, bool nesterov,
                   const StepRecord* record);
template <class T>
void muon_apply(T* p, const T* u, std::int64_t count, double factor, double lr_mult,
                double decay_mult, const StepRecord* record);
}  // namespace mt::cpu
