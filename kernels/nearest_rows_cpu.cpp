#include "kernels/nearest_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/loops.h"
#include "kernels/unrolled.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kStrip = 64;  // rows whose numbers lie column by column

// Finds which of a part's centres are nearest to the rows of a strip, in registers of kWide rows,
// kTogether of them at a time: so no row's numbers meet each other, and what is nearest is found as
// it is defined, centre after centre.  x: [columns, kStrip].
template <int kTogether, int kWide>
[[gnu::always_inline]] inline void nearest_of_strip(std::int32_t* found, const float* x,
                                                    const float* centres, const float* halves,
                                                    std::int64_t count, std::int64_t columns) {
  using Lanes [[gnu::vector_size(kWide * sizeof(float))]] = float;
  using Numbers [[gnu::vector_size(kWide * sizeof(float))]] = std::int32_t;
  const auto rows_of = [&](std::int64_t c, std::int64_t row) __attribute__((always_inline)) {
    Lanes lanes;
    std::memcpy(&lanes, x + c * kStrip + row, sizeof lanes);
    return lanes;
  };
  for (std::int64_t row = 0; row < kStrip; row += kTogether * kWide) {
    Lanes best[kTogether];
    Numbers of_best[kTogether] = {};
    MT_UNROLLED for (int v = 0; v < kTogether; ++v) best[v] = Lanes{} - INFINITY;
    const float* centre = centres;
    for (std::int64_t j = 0; j < count; ++j, centre += columns) {
      Lanes close[kTogether];  // the product with it, less half its squared length
      MT_UNROLLED for (int v = 0; v < kTogether; ++v) close[v] = Lanes{} - halves[j];
      for (std::int64_t c = 0; c < columns; ++c) {
        MT_UNROLLED for (int v = 0; v < kTogether; ++v) close[v] +=
            rows_of(c, row + v * kWide) * centre[c];
      }
      MT_UNROLLED for (int v = 0; v < kTogether; ++v) {
        const Numbers nearer = close[v] > best[v];
        best[v] = nearer ? close[v] : best[v];
        of_best[v] = nearer ? Numbers{} + static_cast<std::int32_t>(j) : of_best[v];
      }
    }
    MT_UNROLLED for (int v = 0; v < kTogether; ++v)
        std::memcpy(found + row + v * kWide, &of_best[v], sizeof of_best[v]);
  }
}

}  // namespace

void half_squares(float* half, const float* c, std::int64_t count, std::int64_t columns) {
  for_blocks(count, rows_per_block(columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const float* const row = c + j * columns;
      half[j] = sum<float>(columns, [&](std::int64_t i) { return row[i] * row[i]; }) / 2;
    }
  });
}

void nearest_of_products(std::int32_t* found, float* best, const NearestOfProducts& problem) {
  const std::int64_t count = problem.count;
  for_blocks(problem.rows, rows_per_block(count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const here = problem.products + i * count;
      for (std::int64_t j = 0; j < count; ++j) {
        const float close = here[j] - problem.half_squares[j];
        if (!(close > best[i])) continue;
        best[i] = close;
        found[i] = static_cast<std::int32_t>(problem.first + j);
      }
    }
  });
}

void nearest_parts(std::int32_t* found, const NearestParts& p) {
  const std::int64_t columns = p.parts * p.width;
  std::vector<float> halves(static_cast<std::size_t>(p.parts * p.count));
  half_squares(halves.data(), p.centres, p.parts * p.count, p.width);
  for_blocks(p.rows, kStrip, [&](std::int64_t begin, std::int64_t end) {
    float x[kNearestPartColumns * kStrip] = {};
    std::int32_t numbers[kStrip];
    for (std::int64_t part = 0; part < p.parts; ++part) {
      for (std::int64_t i = begin; i < end; ++i)
        for (std::int64_t c = 0; c < p.width; ++c)
          x[c * kStrip + i - begin] = p.x[i * columns + part * p.width + c];
      const auto of = [&]<int kTogether, int kWide>() __attribute__((always_inline)) {
        nearest_of_strip<kTogether, kWide>(numbers, x, p.centres + part * p.count * p.width,
                                           &halves[static_cast<std::size_t>(part * p.count)],
                                           p.count, p.width);
      };
      if (isa() == Isa::avx512)
        of.template operator()<4, 16>();
      else if (isa() == Isa::avx2)
        of.template operator()<2, 8>();
      else
        of.template operator()<2, 4>();
      std::copy_n(numbers, end - begin, found + part * p.stride + begin);
    }
  });
}

}  // namespace mt::cpu
