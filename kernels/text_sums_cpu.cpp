#include "kernels/text_sums.h"

#include <algorithm>

namespace mt::cpu {

template <class T>
void text_sums(T* sums, const T* x, const T* mask, const TextRows& rows) {
  const std::int64_t all = rows.rows * rows.texts;
  for (std::int64_t t = 0; t < all; ++t) {
    const auto [begin, end] = rows.range(t);
    double sum = 0, count = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (mask[i] == 0) continue;
      sum -= static_cast<double>(mask[i]) * static_cast<double>(x[i]);
      count += static_cast<double>(mask[i]);
    }
    sums[t] = static_cast<T>(sum);
    sums[all + t] = static_cast<T>(count);
  }
}

template <class T>
void spread_over_texts(T* x, const T* slope, const T* mask, const TextRows& rows) {
  for (std::int64_t t = 0; t < rows.rows * rows.texts; ++t) {
    const auto [begin, end] = rows.range(t);
    for (std::int64_t i = begin; i < end; ++i) x[i] = -slope[t] * mask[i];
    if (rows.is_last(t)) std::fill(x + end, x + rows.end_of_row(t), T(0));
  }
}

#define INSTANTIATE(T)                                              \
  template void text_sums(T*, const T*, const T*, const TextRows&); \
  template void spread_over_texts(T*, const T*, const T*, const TextRows&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
