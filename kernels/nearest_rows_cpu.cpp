#include "kernels/nearest_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kTile = 256;  // centres

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

  [[gnu::always_inline]] inline std::int32_t nearest(const float* vector) const {
    std::int64_t found = 0;
    float best = -INFINITY;
    for (std::int64_t tile = 0; tile < count_; ++tile) {
      float close[kTile];  // the product with each, less half its squared length
      std::copy_n(&begin_[static_cast<std::size_t>(tile * kTile)], kTile, close);
      const float* column = &turned_[static_cast<std::size_t>(tile * columns_ * kTile)];
      for (std::int64_t c = 0; c < columns_; ++c, column += kTile)
        for (std::int64_t j = 0; j < kTile; ++j) close[j] += vector[c] * column[j];
      float most[kLanes];
      std::fill_n(most, kLanes, -INFINITY);
      for (std::int64_t j = 0; j < kTile; j += kLanes)
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          most[lane] = close[j + lane] > most[lane] ? close[j + lane] : most[lane];
      const float top = *std::max_element(most, most + kLanes);
      if (!(top > best)) continue;
      best = top;
      found = tile * kTile + (std::find(close, close + kTile, top) - close);
    }
    return static_cast<std::int32_t>(found);
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
      for (std::int64_t i = begin; i < end; ++i)
        found[part * p.stride + i] = tiles.nearest(p.x + i * columns + part * p.width);
    });
  }
}

}  // namespace mt::cpu
