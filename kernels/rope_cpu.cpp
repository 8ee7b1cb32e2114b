#include "kernels/rope.h"

#include <cmath>
#include <vector>

#include "kernels/loops.h"
#include "kernels/turn.h"

namespace mt::cpu {
namespace {

// Row p: the cosines, then the sines, of position first_position + p.
template <class T>
std::vector<T> angles(const double* inv_freq, const RopeShape& s, std::int64_t count,
                      bool inverse) {
  const std::int64_t half = s.rotary_dim / 2;
  std::vector<T> table(static_cast<std::size_t>(count * s.rotary_dim));
  for_blocks(count, rows_per_block(16 * s.rotary_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(s.first_position + p) * inv_freq[i];
        table[p * s.rotary_dim + i] = static_cast<T>(s.magnitude * std::cos(angle));
        table[p * s.rotary_dim + half + i] =
            static_cast<T>(s.magnitude * (inverse ? -std::sin(angle) : std::sin(angle)));
      }
  });
  return table;
}

}  // namespace

template <class T>
void rope(T* x, const double* inv_freq, const RopeShape& s, bool inverse) {
  const std::int64_t half = s.rotary_dim / 2;
  const std::vector<T> table = angles<T>(inv_freq, s, std::min(s.tokens, s.seq_length), inverse);
  const std::int64_t block = rows_per_block(s.heads * s.head_dim);
  for_blocks(s.tokens, block, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const T* cosine = table.data() + t % s.seq_length * s.rotary_dim;
      for (std::int64_t h = 0; h < s.heads; ++h) {
        if (s.packed_group > 0 && (h + 1) % s.packed_group == 0) continue;
        T* row = x + (t * s.heads + h) * s.head_dim;
        turn_pairs(row, row, cosine, cosine + half, half, s.interleaved);
      }
    }
  });
}

template void rope(float*, const double*, const RopeShape&, bool);
template void rope(double*, const double*, const RopeShape&, bool);

}  // namespace mt::cpu
