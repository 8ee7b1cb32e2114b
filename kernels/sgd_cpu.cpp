#include "kernels/sgd.h"

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void sgd(T* p, T* b, const T* g, std::int64_t count, double momentum, double lr_mult,
         double decay_mult, const StepRecord* record) {
  const T scale = static_cast<T>(record->gradient_scale), mu = static_cast<T>(momentum);
  const T lr = static_cast<T>(record->learning_rate * lr_mult);
  const T decay = static_cast<T>(record->weight_decay * decay_mult);
  for_blocks(count, kBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      b[i] = mu * b[i] + (g[i] * scale + decay * p[i]);
      p[i] -= lr * b[i];
    }
  });
}

template void sgd(float*, float*, const float*, std::int64_t, double, double, double,
                  const StepRecord*);
template void sgd(double*, double*, const double*, std::int64_t, double, double, double,
                  const StepRecord*);

}  // namespace mt::cpu
