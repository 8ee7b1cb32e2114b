#include "kernels/fill_random.h"

#include <algorithm>
#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key) {
  const std::int64_t pairs = count > 0 ? (first + count - 1) / 2 - first / 2 + 1 : 0;
  for_blocks(pairs, kBlock / 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = first / 2 + begin; n < first / 2 + end; ++n) {
      const Counter words = words_of(static_cast<std::uint64_t>(n), key);
      const double radius = std * std::sqrt(-2 * log_of_unit(to_unit(words[0])));
      const auto [cosine, sine] = cos_and_sin(to_unit(words[1]));
      const std::int64_t i = 2 * n - first;  // of the even one; the ends may lack one
      if (i >= 0) y[i] = static_cast<T>(mean + radius * cosine);
      if (i + 1 < count) y[i + 1] = static_cast<T>(mean + radius * sine);
    }
  });
}

template <class T>
void fill_uniform(T* y, std::int64_t first, std::int64_t count, double bound, RandomKey key) {
  const std::int64_t fours = count > 0 ? (first + count - 1) / 4 - first / 4 + 1 : 0;
  for_blocks(fours, kBlock / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = first / 4 + begin; n < first / 4 + end; ++n) {
      const Counter words = words_of(static_cast<std::uint64_t>(n), key);
      for (std::int64_t i = std::max(first, 4 * n); i < std::min(first + count, 4 * n + 4); ++i)
        y[i - first] = static_cast<T>(bound * (2 * to_unit(words[i % 4]) - 1));
    }
  });
}

template void fill_normal(float*, std::int64_t, std::int64_t, double, double, RandomKey);
template void fill_normal(double*, std::int64_t, std::int64_t, double, double, RandomKey);
template void fill_uniform(float*, std::int64_t, std::int64_t, double, RandomKey);
template void fill_uniform(double*, std::int64_t, std::int64_t, double, RandomKey);

}  // namespace mt::cpu
