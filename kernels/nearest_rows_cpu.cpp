#include "kernels/nearest_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/loops.h"
#include "kernels/unrolled.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kTile = 32;  // centres

// What `of` makes of all numbers of a register, half of it after half.
template <class Register, class Of>
[[gnu::always_inline]] inline auto halved(Register from, const Of& of) {
  constexpr int kWide = sizeof(Register) / sizeof(from[0]);
  std::remove_cvref_t<decltype(from[0])> numbers[kWide];
  std::memcpy(numbers, &from, sizeof numbers);
  MT_UNROLLED for (int half = kWide / 2; half > 0; half /= 2) {
    MT_UNROLLED for (int i = 0; i < half; ++i) numbers[i] = of(numbers[i], numbers[i + half]);
  }
  return numbers[0];
}

// The centres of a part in tiles, each of which lies column by column: a product of matrices would
// mostly pack them.  For 4,000 vectors of 4 columns and 256 centres it takes a tenth of the time.
class Tiles {
 public:
  Tiles(const float* centres, std::int64_t count, std::int64_t columns)
      : columns_(columns), count_((count + kTile - 1) / kTile) {
    // What is behind the last is infinitely far.
    const auto places = static_cast<std::size_t>(count_ * kTile);
    begin_.assign(places, -INFINITY);
    turned_.resize(places * static_cast<std::size_t>(columns));
    half_squares(begin_.data(), centres, count, columns);
    for (std::int64_t j = 0; j < count; ++j) {
      begin_[static_cast<std::size_t>(j)] = -begin_[static_cast<std::size_t>(j)];
      for (std::int64_t c = 0; c < columns; ++c)
        turned_[static_cast<std::size_t>((j / kTile * columns + c) * kTile + j % kTile)] =
            centres[j * columns + c];
    }
  }

  // Finds the nearest of kSome vectors, which are `stride` numbers apart, in registers of kWide
  // numbers.
  template <int kSome, int kWide>
  [[gnu::always_inline]] inline void nearest(std::int32_t* found, const float* x,
                                             std::int64_t stride) const {
    using Lanes [[gnu::vector_size(kWide * sizeof(float))]] = float;
    using Numbers [[gnu::vector_size(kWide * sizeof(float))]] = std::int32_t;
    constexpr int kTogether = kTile / kWide;
    const auto load = [](const float* from) __attribute__((always_inline)) {
      Lanes lanes;
      std::memcpy(&lanes, from, sizeof lanes);
      return lanes;
    };
    Lanes best[kSome];
    Numbers of_best[kSome] = {};  // registers
    MT_UNROLLED for (int i = 0; i < kSome; ++i) best[i] = Lanes{} - INFINITY;
    for (std::int64_t tile = 0; tile < count_; ++tile) {
      Lanes close[kSome][kTogether];  // the product with each, less half its squared length
      MT_UNROLLED for (int i = 0; i < kSome; ++i) {
        MT_UNROLLED for (int v = 0; v < kTogether; ++v) close[i][v] =
            load(&begin_[static_cast<std::size_t>(tile * kTile + v * kWide)]);
      }
      const float* column = &turned_[static_cast<std::size_t>(tile * columns_ * kTile)];
      for (std::int64_t c = 0; c < columns_; ++c, column += kTile) {
        Lanes centres[kTogether];
        MT_UNROLLED for (int v = 0; v < kTogether; ++v) centres[v] = load(column + v * kWide);
        MT_UNROLLED for (int i = 0; i < kSome; ++i) {
          const float number = x[i * stride + c];
          MT_UNROLLED for (int v = 0; v < kTogether; ++v) close[i][v] += number * centres[v];
        }
      }
      MT_UNROLLED for (int i = 0; i < kSome; ++i) {
        MT_UNROLLED for (int v = 0; v < kTogether; ++v) {
          const Numbers nearer = close[i][v] > best[i];
          best[i] = nearer ? close[i][v] : best[i];
          of_best[i] =
              nearer ? Numbers{} + static_cast<std::int32_t>(tile * kTogether + v) : of_best[i];
        }
      }
    }
    MT_UNROLLED for (int i = 0; i < kSome; ++i) {
      const float top = halved(best[i], [](float x, float y) { return y > x ? y : x; });
      std::int32_t places[kWide];
      for (int lane = 0; lane < kWide; ++lane) places[lane] = lane;
      Numbers lanes;
      std::memcpy(&lanes, places, sizeof lanes);
      const Numbers first_of = best[i] == Lanes{} + top
                                   ? of_best[i] * kWide + lanes
                                   : Numbers{} + std::numeric_limits<std::int32_t>::max();
      const std::int32_t first =
          halved(first_of, [](std::int32_t x, std::int32_t y) { return y < x ? y : x; });
      found[i] = first;
    }
  }

 private:
  std::int64_t columns_, count_;
  std::vector<float> turned_, begin_;
};

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
  for (std::int64_t part = 0; part < p.parts; ++part) {
    const Tiles tiles(p.centres + part * p.count * p.width, p.count, p.width);
    for_blocks(p.rows, rows_per_block(p.count), [&](std::int64_t begin, std::int64_t end) {
      const float* const x = p.x + part * p.width;
      std::int32_t* const of_part = found + part * p.stride;
      const auto all = [&]<int kSome, int kWide>() __attribute__((always_inline)) {
        std::int64_t i = begin;
        for (; i + kSome <= end; i += kSome)
          tiles.template nearest<kSome, kWide>(of_part + i, x + i * columns, columns);
        for (; i < end; ++i)
          tiles.template nearest<1, kWide>(of_part + i, x + i * columns, columns);
      };
      if (isa() == Isa::avx512) return all.template operator()<4, 16>();
      if (isa() == Isa::avx2) return all.template operator()<2, 8>();
      all.template operator()<1, 4>();
    });
  }
}

}  // namespace mt::cpu
