#include <algorithm>
#include <cmath>

#include "kernels/cached_qkv.h"
#include "kernels/loops.h"
#include "kernels/turn.h"

namespace mt::cpu {
namespace {

// A head of queries or of keys.
template <class T>
void turn(T* to, const T* from, const T* angles, const CachedQkvShape& s) {
  const std::int64_t half = s.rotary_dim / 2;
  turn_pairs(to, from, angles, angles + half, half, s.interleaved);
  std::copy(from + s.rotary_dim, from + s.qkv.head_dim, to + s.rotary_dim);
}

}  // namespace

template <class T>
void rope_angles(T* angles, const double* inv_freq, const std::int32_t* positions,
                 std::int64_t tokens, std::int64_t rotary_dim, double magnitude) {
  const std::int64_t half = rotary_dim / 2;
  for_blocks(tokens, rows_per_block(16 * rotary_dim), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(positions[t]) * inv_freq[i];
        angles[t * rotary_dim + i] = static_cast<T>(magnitude * std::cos(angle));
        angles[t * rotary_dim + half + i] = static_cast<T>(magnitude * std::sin(angle));
      }
  });
}

template <class T>
void cached_qkv(T* q, T* keys, T* values, const T* qkv, const T* angles,
                const std::int32_t* positions, const std::int32_t* slots, const CachedQkvShape& s) {
  const auto [tokens, heads, groups, head_dim] = s.qkv;
  const std::int64_t per_group = heads / groups,
                     length = tokens / std::max<std::int64_t>(1, s.sequences);
  const std::int64_t row = (heads + 2 * groups) * head_dim;
  for_blocks(tokens, rows_per_block(row), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t place =
          (s.of_tokens ? t : row_in_cache(slots, s.runs, s.capacity, t / length, positions[t])) *
          groups;
      const T* from = qkv + t * row;
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t n = 0; n < per_group; ++n, from += head_dim)
          turn(q + (t * heads + g * per_group + n) * head_dim, from, angles + t * s.rotary_dim, s);
        turn(keys + (place + g) * head_dim, from, angles + t * s.rotary_dim, s);
        from += head_dim;
        std::copy_n(from, head_dim, values + (place + g) * head_dim);
        from += head_dim;
      }
    }
  });
}

template void rope_angles(float*, const double*, const std::int32_t*, std::int64_t, std::int64_t,
                          double);
template void rope_angles(double*, const double*, const std::int32_t*, std::int64_t, std::int64_t,
                          double);
template void cached_qkv(float*, float*, float*, const float*, const float*, const std::int32_t*,
                         const std::int32_t*, const CachedQkvShape&);
template void cached_qkv(double*, double*, double*, const double*, const double*,
                         const std::int32_t*, const std::int32_t*, const CachedQkvShape&);

}  // namespace mt::cpu
