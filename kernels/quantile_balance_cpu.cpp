#include "kernels/quantile_balance.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace mt::cpu {

// The n-th largest, from 0.
template <class T>
static T largest(std::vector<T>& numbers, std::int64_t n) {
  const auto at = numbers.begin() + n;
  std::nth_element(numbers.begin(), at, numbers.end(), std::greater<T>());
  return *at;
}

template <class T>
void quantile_keys(T* keys, const T* z, const T* beta, const QuantileShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.experts; ++i) keys[i] = z[i] - beta[i % s.experts];
}

template <class T>
void add_quantiles(double* sums, const T* z, const T* beta, double factor, const QuantileShape& s) {
  const auto experts = static_cast<std::size_t>(s.experts);
  std::vector<T> keys(experts), alpha;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    quantile_keys(keys.data(), z + t * s.experts, beta, {1, s.experts, s.chosen});
    alpha.push_back(largest(keys, s.chosen));
  }
  std::vector<T> column(alpha.size());
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t t = 0; t < column.size(); ++t) column[t] = z[t * experts + e] - alpha[t];
    sums[e] += factor * static_cast<double>(largest(column, s.tokens * s.chosen / s.experts));
  }
}

#define INSTANTIATE(T)                                                       \
  template void quantile_keys(T*, const T*, const T*, const QuantileShape&); \
  template void add_quantiles(double*, const T*, const T*, double, const QuantileShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
