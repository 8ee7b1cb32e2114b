#include "kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace mt::cpu {

template <class T>
static void choose(std::int32_t* expert, T* weight, const T* logits, const RouteShape& s) {
  std::vector<std::int32_t> by_logit(static_cast<std::size_t>(s.experts));
  std::iota(by_logit.begin(), by_logit.end(), 0);
  const auto comes_first = [&](std::int32_t a, std::int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::partial_sort(by_logit.begin(), by_logit.begin() + s.chosen, by_logit.end(), comes_first);
  const T most = logits[by_logit.front()];
  std::copy_n(by_logit.begin(), s.chosen, expert);
  std::sort(expert, expert + s.chosen);
  T sum = 0;
  for (std::int64_t j = 0; j < s.chosen; ++j) sum += weight[j] = std::exp(logits[expert[j]] - most);
  for (std::int64_t j = 0; j < s.chosen; ++j) weight[j] /= sum;
}

template <class T>
void route(std::int32_t* expert, T* weight, std::int32_t* place, std::int32_t* ends,
           const T* logits, const RouteShape& s) {
  for (std::int64_t t = 0; t < s.tokens; ++t)
    choose(expert + t * s.chosen, weight + t * s.chosen, logits + t * s.experts, s);
  const std::int64_t slots = s.tokens * s.chosen;
  std::fill_n(ends, s.experts, 0);
  for (std::int64_t i = 0; i < slots; ++i) ++ends[expert[i]];
  std::exclusive_scan(ends, ends + s.experts, ends, 0);
  for (std::int64_t i = 0; i < slots; ++i) place[i] = ends[expert[i]]++;
}

template <class T>
void route_backward(T* d_logits, const T* d_weight, const T* weight, const std::int32_t* expert,
                    const RouteShape& s) {
  std::fill_n(d_logits, s.tokens * s.experts, T(0));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::int64_t first = t * s.chosen;
    T mean = 0;
    for (std::int64_t i = first; i < first + s.chosen; ++i) mean += weight[i] * d_weight[i];
    for (std::int64_t i = first; i < first + s.chosen; ++i)
      d_logits[t * s.experts + expert[i]] = weight[i] * (d_weight[i] - mean);
  }
}

template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols, const RouteShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    std::copy_n(x + i / s.chosen * cols, cols, out + place[i] * cols);
}

template <class T>
void weigh(T* out, const T* a, const T* weight, const std::int32_t* place, std::int64_t cols,
           const RouteShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    for (std::int64_t c = 0; c < cols; ++c)
      out[place[i] * cols + c] = weight[i] * a[place[i] * cols + c];
}

template <class T>
void weigh_backward(T* da, T* d_weight, const T* dy, const T* a, const T* weight,
                    const std::int32_t* place, std::int64_t cols, const RouteShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i) {
    T sum = 0;
    for (std::int64_t c = place[i] * cols; c < (place[i] + 1) * cols; ++c) {
      sum += dy[c] * a[c];
      da[c] = weight[i] * dy[c];
    }
    d_weight[i] = sum;
  }
}

template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols, const RouteShape& s) {
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t c = 0; c < cols; ++c) {
      T sum = 0;
      for (std::int64_t j = 0; j < s.chosen; ++j) sum += x[place[t * s.chosen + j] * cols + c];
      y[t * cols + c] = sum;
    }
}

#define INSTANTIATE(T)                                                                          \
  template void route(std::int32_t*, T*, std::int32_t*, std::int32_t*, const T*,                \
                      const RouteShape&);                                                       \
  template void route_backward(T*, const T*, const T*, const std::int32_t*, const RouteShape&); \
  template void spread(T*, const T*, const std::int32_t*, std::int64_t, const RouteShape&);     \
  template void weigh(T*, const T*, const T*, const std::int32_t*, std::int64_t,                \
                      const RouteShape&);                                                       \
  template void weigh_backward(T*, T*, const T*, const T*, const T*, const std::int32_t*,       \
                               std::int64_t, const RouteShape&);                                \
  template void gather(T*, const T*, const std::int32_t*, std::int64_t, const RouteShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
