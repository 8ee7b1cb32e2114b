#include <array>

#include "base/half.h"
#include "kernels/cached_codes.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

std::uint8_t code_of(float x, float scale) { return Fp8(x / scale).bits; }

// E4M3's numbers by their codes.
const std::array<float, 256>& numbers() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> made = {};
    for (std::size_t i = 0; i < made.size(); ++i) {
      Fp8 number;
      number.bits = static_cast<std::uint8_t>(i);
      made[i] = static_cast<float>(number);
    }
    return made;
  }();
  return all;
}

}  // namespace

template <class T>
void put_codes(const CachedCodes<std::uint8_t>& cache, const PutCodes<T>& rows) {
  const std::int64_t width = cache.width;
  for_blocks(rows.tokens, rows_per_block(4 * width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t place = width * row_in_cache(cache.slots, cache.runs, cache.capacity,
                                                      t / rows.of_sequence, rows.positions[t]);
      for (std::int64_t i = 0; i < width; ++i) {
        cache.keys[place + i] =
            code_of(static_cast<float>(rows.keys[t * width + i]), cache.scales.keys);
        cache.values[place + i] =
            code_of(static_cast<float>(rows.values[t * width + i]), cache.scales.values);
      }
    }
  });
}

template <class T>
void get_codes(const GetCodes<T>& rows, const CachedCodes<const std::uint8_t>& cache) {
  const std::int64_t width = cache.width, count = rows.length != nullptr ? *rows.length : rows.most;
  for_blocks(count, rows_per_block(2 * width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t place =
          width * row_in_cache(cache.slots, cache.runs, cache.capacity, rows.sequence, t);
      for (std::int64_t i = 0; i < width; ++i) {
        rows.keys[t * width + i] =
            static_cast<T>(numbers()[cache.keys[place + i]] * cache.scales.keys);
        rows.values[t * width + i] =
            static_cast<T>(numbers()[cache.values[place + i]] * cache.scales.values);
      }
    }
  });
}

#define INSTANTIATE(T)                                                           \
  template void put_codes(const CachedCodes<std::uint8_t>&, const PutCodes<T>&); \
  template void get_codes(const GetCodes<T>&, const CachedCodes<const std::uint8_t>&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
