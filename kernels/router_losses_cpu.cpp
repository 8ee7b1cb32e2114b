#include "kernels/router_losses.h"

#include <algorithm>
#include <vector>

#include "kernels/router_row.h"

namespace mt::cpu {
namespace {

// A row's softmax, its scores, and the logarithm of the sum of exponentials.
template <class T>
struct Row {
  Row(const T* z, const RouterGroups& s)
      : softmax(z, z + s.experts), scores(static_cast<std::size_t>(s.experts)) {
    log_sum = cpu::softmax(softmax);
    if (!scores_each(s.scores())) {
      scores = softmax;
      return;
    }
    for (std::int64_t e = 0; e < s.experts; ++e)
      whole += scores[static_cast<std::size_t>(e)] = own_score(z[e], s.scores());
    for (T& one : scores) one /= whole;
  }
  T balance(const T* counts) const {
    T sum = 0;
    for (std::size_t e = 0; e < scores.size(); ++e) sum += counts[e] * scores[e];
    return sum;
  }

  std::vector<T> softmax, scores;
  T log_sum = 0, whole = static_cast<T>(kLeastScoreSum);
};

std::int64_t group_of(std::int64_t row, const RouterGroups& s) {
  return (s.first + row) / s.group_rows;
}

}  // namespace

template <class T>
void count_experts(T* counts, const std::int32_t* expert, const RouterGroups& s) {
  std::fill_n(counts, s.groups * s.experts, T(0));
  for (std::int64_t i = 0; i < s.rows * s.chosen; ++i)
    ++counts[group_of(i / s.chosen, s) * s.experts + expert[i]];
}

template <class T>
void router_losses(double* balance, double* square, const T* logits, const T* counts,
                   const RouterGroups& s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const Row<T> row(logits + r * s.experts, s);
    balance[r] = static_cast<double>(row.balance(counts + group_of(r, s) * s.experts));
    square[r] = static_cast<double>(row.log_sum * row.log_sum);
  }
}

template <class T>
void add_router_sums(double* sums, const double* balance, const double* square, const T* counts,
                     const RouterFactors& factors, const RouterGroups& s) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    sums[0] += factors.by_balance * balance[r];
    sums[1] += factors.by_square * square[r];
  }
  for (std::int64_t i = 0; i < s.groups * s.experts; ++i)
    sums[2 + i % s.experts] += static_cast<double>(counts[i]);
}

template <class T>
void router_losses_backward(T* d_logits, const T* logits, const T* counts,
                            const RouterFactors& factors, const double* scale, const double* weight,
                            const RouterGroups& s) {
  const double by = (scale != nullptr ? *scale : 1) * (weight != nullptr ? *weight : 1);
  const auto by_balance = static_cast<T>(factors.by_balance * by),
             by_square = static_cast<T>(factors.by_square * by);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const T* const z = logits + r * s.experts;
    const T* const n = counts + group_of(r, s) * s.experts;
    const Row<T> row(z, s);
    const T mean = row.balance(n);
    for (std::int64_t e = 0; e < s.experts; ++e) {
      const auto i = static_cast<std::size_t>(e);
      const T slope = scores_each(s.scores()) ? own_slope(z[e], s.scores()) : T(1);
      d_logits[r * s.experts + e] += by_balance * row.scores[i] * slope * (n[e] - mean) +
                                     by_square * 2 * row.log_sum * row.softmax[i];
    }
  }
}

template <class T>
void mean_counts(T* counts, double* so_far, std::int64_t experts) {
  double own = 0, all = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    own += static_cast<double>(counts[e]);
    all += so_far[e] += static_cast<double>(counts[e]);
  }
  for (std::int64_t e = 0; e < experts; ++e) counts[e] = static_cast<T>(so_far[e] * own / all);
}

#define INSTANTIATE(T)                                                                     \
  template void count_experts(T*, const std::int32_t*, const RouterGroups&);               \
  template void router_losses(double*, double*, const T*, const T*, const RouterGroups&);  \
  template void add_router_sums(double*, const double*, const double*, const T*,           \
                                const RouterFactors&, const RouterGroups&);                \
  template void router_losses_backward(T*, const T*, const T*, const RouterFactors&,       \
                                       const double*, const double*, const RouterGroups&); \
  template void mean_counts(T*, double*, std::int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
