#include "kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void sinkhorn(T* keys, T* work, const T* z, std::int64_t tokens, std::int64_t experts) {
  T *const a = work, *const b = work + tokens, *const before = b + experts;
  const T least = static_cast<T>(kLeastSinkhornSum);
  for (std::int64_t i = 0; i < tokens * experts; ++i) keys[i] = std::exp(z[i]);
  std::fill_n(b, experts, T(1));
  T change = 1;
  for (int round = 0; change > static_cast<T>(kSinkhornTolerance) && round < kMostSinkhornRounds;
       ++round) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const T* const row = keys + t * experts;
      a[t] = 1 / static_cast<T>(tokens) /
             (sum<T>(experts, [&](std::int64_t e) { return b[e] * row[e]; }) + least);
    }
    std::copy_n(b, experts, before);
    std::fill_n(b, experts, T(0));
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t e = 0; e < experts; ++e) b[e] += a[t] * keys[t * experts + e];
    change = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      b[e] = 1 / static_cast<T>(experts) / (b[e] + least);
      change += std::abs(before[e] - b[e]) / static_cast<T>(experts);
    }
  }
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < experts; ++e) keys[t * experts + e] *= b[e] * a[t];
}

template <class T>
void jitter(T* y, const T* x, std::int64_t rows, std::int64_t cols, const Jitter& jitter) {
  const Dropout& d = jitter.places;
  const auto word = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t i = d.first_row + r;
      const std::uint32_t sample = word(d.record->first_sample + i / d.seq_length);
      Counter words = {};
      for (std::int64_t c = 0; c < cols; ++c) {
        if (c % 4 == 0) words = philox({word(c / 4), word(i % d.seq_length), 2, sample}, d.key);
        const double u = 2 * to_unit(words[static_cast<std::size_t>(c % 4)]) - 1;
        y[r * cols + c] = static_cast<T>(1 + d.p * u) * x[r * cols + c];
      }
    }
  });
}

#define INSTANTIATE(T)                                                  \
  template void sinkhorn(T*, T*, const T*, std::int64_t, std::int64_t); \
  template void jitter(T*, const T*, std::int64_t, std::int64_t, const Jitter&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
