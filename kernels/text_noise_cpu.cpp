#include "kernels/text_noise.h"

#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void add_text_noise(T* y, const std::int32_t* first_key, std::int64_t rows, std::int64_t cols,
                    const TextNoise& noise) {
  const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t i = noise.first_row + r, position = i % noise.seq_length;
      const std::int64_t length = text_length(noise, first_key, i);
      const auto size = static_cast<T>(noise.alpha / std::sqrt(static_cast<double>(length * cols)));
      const std::uint32_t sample = word(noise.record->first_sample + i / noise.seq_length);
      Counter words = {};
      for (std::int64_t c = 0; c < cols; ++c) {
        if (c % 4 == 0) words = philox({word(c / 4), word(position), 1, sample}, noise.key);
        const double u = 2 * to_unit(words[static_cast<std::size_t>(c % 4)]) - 1;
        y[r * cols + c] += size * static_cast<T>(u);
      }
    }
  });
}

template void add_text_noise(float*, const std::int32_t*, std::int64_t, std::int64_t,
                             const TextNoise&);
template void add_text_noise(double*, const std::int32_t*, std::int64_t, std::int64_t,
                             const TextNoise&);

}  // namespace mt::cpu
