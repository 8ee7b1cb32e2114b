#include "kernels/view_loss.h"

#include <algorithm>
#include <cmath>

namespace mt::cpu {

// This is log sum_k exp(factor x[k]).
template <class T>
static T log_sum_exp(const T* x, T factor, std::int64_t cols) {
  T most = factor * x[0], sum = 0;
  for (std::int64_t k = 1; k < cols; ++k) most = std::max(most, factor * x[k]);
  for (std::int64_t k = 0; k < cols; ++k) sum += std::exp(factor * x[k] - most);
  return most + std::log(sum);
}

template <class T>
void view_loss(T* loss, T* s, T* t, const T* center, const T* sharpness, const T* row_weight,
               const Views& views) {
  const std::int64_t cols = views.cols;
  for (std::int64_t q = 0; q < 2 * views.images; ++q) {
    T* const p = t + q * cols;
    for (std::int64_t k = 0; k < cols; ++k) p[k] -= center[k];
    const T all = log_sum_exp(p, sharpness[q], cols);
    for (std::int64_t k = 0; k < cols; ++k) p[k] = std::exp(sharpness[q] * p[k] - all);
  }
  const T factor = 1 / static_cast<T>(kStudentTemperature),
          pairs = static_cast<T>(2 * (views.others + 1));
  for (std::int64_t r = 0; r < views.rows(); ++r) {
    T* const x = s + r * cols;
    const T all = log_sum_exp(x, factor, cols);
    const std::int64_t first = 2 * views.image_of(r);
    T sum = 0, taught = 0;
    for (std::int64_t q = first; q < first + 2; ++q) {
      if (q == r) continue;
      ++taught;
      for (std::int64_t k = 0; k < cols; ++k) sum -= t[q * cols + k] * (factor * x[k] - all);
    }
    loss[r] = sum / pairs;
    const T by = row_weight[r] * factor / pairs;
    for (std::int64_t k = 0; k < cols; ++k) {
      T p = 0;
      for (std::int64_t q = first; q < first + 2; ++q)
        if (q != r) p += t[q * cols + k];
      x[k] = by * (taught * std::exp(factor * x[k] - all) - p);
    }
  }
}

#define INSTANTIATE(T) \
  template void view_loss(T*, T*, T*, const T*, const T*, const T*, const Views&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
