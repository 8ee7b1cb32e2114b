#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void rope(T* x, const std::int32_t* positions, const double* inv_freq, std::int64_t tokens,
          std::int64_t heads, std::int64_t head_dim, std::int64_t rotary_dim, bool inverse) {
  if (tokens == 0) return;
  // Sequences share positions, so each distinct one's sines are computed once.
  std::vector<std::int32_t> distinct(positions, positions + tokens);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const std::int64_t half = rotary_dim / 2, count = std::ssize(distinct);
  std::vector<T> table(static_cast<std::size_t>(count * rotary_dim));  // cosines, then sines
  for_blocks(count, rows_per_block(16 * rotary_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = distinct[p] * inv_freq[i];
        table[p * rotary_dim + i] = static_cast<T>(std::cos(angle));
        table[p * rotary_dim + half + i] =
            static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
      }
  });
  for_blocks(tokens, rows_per_block(heads * head_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const auto place = std::lower_bound(distinct.begin(), distinct.end(), positions[t]);
      const T* cosine = table.data() + (place - distinct.begin()) * rotary_dim;
      const T* sine = cosine + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        T* low = x + (t * heads + h) * head_dim;
        T* high = low + half;
        for (std::int64_t i = 0; i < half; ++i) {
          const T a = low[i], b = high[i];
          low[i] = a * cosine[i] - b * sine[i];
          high[i] = b * cosine[i] + a * sine[i];
        }
      }
    }
  });
}

template void rope(float*, const std::int32_t*, const double*, std::int64_t, std::int64_t,
                   std::int64_t, std::int64_t, bool);
template void rope(double*, const std::int32_t*, const double*, std::int64_t, std::int64_t,
                   std::int64_t, std::int64_t, bool);

}  // namespace mt::cpu
