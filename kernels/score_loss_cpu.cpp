#include "kernels/score_loss.h"

#include <algorithm>
#include <cmath>

namespace mt::cpu {

template <class T>
void score_loss(T* loss, T* x, const T* t, const T* row_weight, std::int64_t rows,
                std::int64_t cols, ScoreLoss kind) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T sum = 0;
    for (std::int64_t c = r * cols; c < (r + 1) * cols; ++c) {
      T slope;
      if (kind == ScoreLoss::squared) {
        const T apart = x[c] - t[c];
        sum += apart * apart;
        slope = 2 * apart;
      } else {
        sum += std::max(x[c], T(0)) - x[c] * t[c] + std::log1p(std::exp(-std::abs(x[c])));
        slope = 1 / (1 + std::exp(-x[c])) - t[c];
      }
      if (row_weight) x[c] = row_weight[r] * slope / static_cast<T>(cols);
    }
    loss[r] = sum / static_cast<T>(cols);
  }
}

#define INSTANTIATE(T) \
  template void score_loss(T*, T*, const T*, const T*, std::int64_t, std::int64_t, ScoreLoss)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
