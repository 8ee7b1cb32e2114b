#include "kernels/muon.h"

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void muon_momentum(T* u, T* m, const T* g, std::int64_t count, double momentum, bool nesterov,
                   const StepRecord* record) {
  const T scale = static_cast<T>(record->gradient_scale);
  const T mu = static_cast<T>(momentum), rest = static_cast<T>(1 - momentum);
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const T gradient = g[i] * scale;
      m[i] += rest * (gradient - m[i]);
      u[i] = nesterov ? gradient + mu * (m[i] - gradient) : m[i];
    }
  });
}

template <class T>
void muon_apply(T* p, const T* u, std::int64_t count, double factor, double lr_mult,
                double decay_mult, const StepRecord* record) {
  const double rate = record->learning_rate * lr_mult;
  const T shrink = static_cast<T>(rate * record->weight_decay * decay_mult);
  const T lr = static_cast<T>(rate), size = static_cast<T>(factor);
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const T decayed = p[i] - shrink * p[i];
      p[i] = decayed - lr * (size * u[i]);
    }
  });
}

template void muon_momentum(float*, float*, const float*, std::int64_t, double, bool,
                            const StepRecord*);
template void muon_momentum(double*, double*, const double*, std::int64_t, double, bool,
                            const StepRecord*);
template void muon_apply(float*, const float*, std::int64_t, double, double, double,
                         const StepRecord*);
template void muon_apply(double*, const double*, std::int64_t, double, double, double,
                         const StepRecord*);

}  // namespace mt::cpu
