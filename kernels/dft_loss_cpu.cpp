#include "kernels/dft_loss.h"

#include <cmath>

namespace mt::cpu {

template <class T>
void dft_loss(T* loss, T* x, const T* weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T p = std::exp(-x[i]);
    loss[i] = p * x[i];
    if (weight) x[i] = weight[i] * p;
  }
}

template void dft_loss(float*, float*, const float*, std::int64_t);
template void dft_loss(double*, double*, const double*, std::int64_t);

}  // namespace mt::cpu
