#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/loops.h"
#include "kernels/nf4.h"

namespace mt::cpu {

static constexpr Nf4Tables kTables = nf4_tables();

// Halfway between a code and the next.
static constexpr std::array<float, 15> kBorders = [] {
  std::array<float, 15> borders{};
  for (std::size_t i = 0; i < borders.size(); ++i)
    borders[i] = static_cast<float>((double{kTables.codes[i]} + kTables.codes[i + 1]) / 2);
  return borders;
}();

// For NaN, which 0 / 0 is, that is the first.
static std::uint8_t code_of(float x) {
  std::uint8_t code = 0;
  for (const float border : kBorders) code = static_cast<std::uint8_t>(code + (x > border ? 1 : 0));
  return code;
}

void nf4_quantize(std::uint8_t* codes, float* largest, const float* x, std::int64_t blocks) {
  for_blocks(blocks, kBlock / kNf4Block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const float* const from = x + b * kNf4Block;
      std::uint8_t* const to = codes + b * kNf4Block / 2;
      float most = 0;
      for (std::int64_t i = 0; i < kNf4Block; ++i) most = std::max(most, std::fabs(from[i]));
      largest[b] = most;
      for (std::int64_t i = 0; i < kNf4Block / 2; ++i)
        to[i] = static_cast<std::uint8_t>(code_of(from[2 * i] / most) << 4 |
                                          code_of(from[2 * i + 1] / most));
    }
  });
}

static std::uint8_t level_of(float x) {
  const float* const begin = kTables.levels;
  const auto i = std::lower_bound(begin, begin + 256, x) - begin;
  if (i == 0 || i == 256) return i == 0 ? 0 : 255;
  return static_cast<std::uint8_t>(kTables.levels[i] - x < x - kTables.levels[i - 1] ? i : i - 1);
}

void nf4_quantize_scales(std::uint8_t* levels, Nf4Scale* scales, const float* largest,
                         std::int64_t blocks) {
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += double{largest[b]};
  const auto offset = static_cast<float>(sum / static_cast<double>(blocks));
  for (std::int64_t begin = 0; begin < blocks; begin += kNf4Scaled) {
    const std::int64_t end = std::min(blocks, begin + kNf4Scaled);
    float most = 0;
    for (std::int64_t b = begin; b < end; ++b)
      most = std::max(most, std::fabs(largest[b] - offset));
    scales[begin / kNf4Scaled] = {most, offset};
    for (std::int64_t b = begin; b < end; ++b)
      levels[b] = level_of(most > 0 ? (largest[b] - offset) / most : 0);
  }
}

template <class T>
void nf4_unpack(T* y, const std::uint8_t* packed, const Nf4Shape& shape) {
  const std::uint8_t* const levels = packed + shape.levels_at();
  const auto* const scales = reinterpret_cast<const Nf4Scale*>(packed + shape.scales_at());
  const auto* const firsts = reinterpret_cast<const std::int32_t*>(packed + shape.firsts_at());
  const std::int64_t of_row = shape.cols / kNf4Block;
  for_blocks(shape.rows, rows_per_block(shape.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t j = 0; j < of_row; ++j) {
        const std::int64_t b = r * of_row + j;
        const Nf4Scale scale = scales[(firsts[r] + j) / kNf4Scaled];
        const float most = kTables.levels[levels[b]] * scale.scale + scale.offset;
        const std::uint8_t* const codes = packed + b * kNf4Block / 2;
        T* const to = y + b * kNf4Block;
        for (std::int64_t i = 0; i < kNf4Block / 2; ++i) {
          to[2 * i] = kTables.codes[codes[i] >> 4] * most;
          to[2 * i + 1] = kTables.codes[codes[i] & 15] * most;
        }
      }
  });
}

template void nf4_unpack(float*, const std::uint8_t*, const Nf4Shape&);
template void nf4_unpack(double*, const std::uint8_t*, const Nf4Shape&);

}  // namespace mt::cpu
