#include "search/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/threads.h"
#include "kernels/isa.h"
#include "ops/ops.h"

namespace mt {
namespace {

// Sums in kLanes parts, which the compiler keeps in vector registers.
constexpr std::int64_t kLanes = 16;

template <class Term>
float sum_of(std::int64_t columns, const Term& term) {
  std::array<float, kLanes> parts = {};
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      parts[static_cast<std::size_t>(lane)] += term(i + lane);
  float sum = 0;
  for (const float part : parts) sum += part;
  for (; i < columns; ++i) sum += term(i);
  return sum;
}

constexpr std::int64_t kRows = 1024;     // of a, to which all of b is compared at a time
constexpr std::int64_t kColumns = 4096;  // of b

constexpr std::int64_t kFewColumns = 32, kTile = 256;  // a tile is of rows of b

// A set of vectors of few columns, in tiles, each of which lies column by column: a product of
// matrices would mostly pack them.  For 4,000 vectors of 4 columns and 256 centres it takes a tenth
// of the time.
class Tiles {
 public:
  Tiles(std::span<const float> vectors, std::int64_t columns)
      : columns_(columns), count_((std::ssize(vectors) / columns + kTile - 1) / kTile) {
    // What is behind the last is infinitely far.
    const auto places = static_cast<std::size_t>(count_ * kTile);
    begin_.assign(places, -INFINITY);
    turned_.resize(places * static_cast<std::size_t>(columns));
    for (std::int64_t j = 0; j < std::ssize(vectors) / columns; ++j) {
      const float* const row = &vectors[static_cast<std::size_t>(j * columns)];
      begin_[static_cast<std::size_t>(j)] = -inner_product(row, row, columns) / 2;
      for (std::int64_t c = 0; c < columns; ++c)
        turned_[static_cast<std::size_t>((j / kTile * columns + c) * kTile + j % kTile)] = row[c];
    }
  }

  std::int32_t nearest(const float* vector) const {
    std::int64_t found = 0;
    cpu::run([&] {
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
    });
    return static_cast<std::int32_t>(found);
  }

 private:
  std::int64_t columns_, count_;
  std::vector<float> turned_, begin_;
};

}  // namespace

float squared_distance(const float* a, const float* b, std::int64_t columns) {
  return sum_of(columns, [&](std::int64_t i) { return (a[i] - b[i]) * (a[i] - b[i]); });
}

float inner_product(const float* a, const float* b, std::int64_t columns) {
  return sum_of(columns, [&](std::int64_t i) { return a[i] * b[i]; });
}

Products::Products(int threads, std::function<void()> between)
    : stream_(Device::cpu, threads), between_(std::move(between)) {}

std::vector<float> Products::dot(std::span<const float> a, std::span<const float> b,
                                 std::int64_t columns) {
  const std::int64_t m = std::ssize(a) / columns, n = std::ssize(b) / columns;
  std::vector<float> out(static_cast<std::size_t>(m * n));
  if (out.empty()) return out;
  matmul({.out = Tensor(out.data(), DType::f32, {m, n}),
          .a = ConstTensor(a.data(), DType::f32, {m, columns}),
          .b = ConstTensor(b.data(), DType::f32, {n, columns}),
          .transpose_b = true},
         stream_);
  return out;
}

std::vector<std::int32_t> Products::nearest(std::span<const float> a, std::span<const float> b,
                                            std::int64_t columns) {
  const std::int64_t m = std::ssize(a) / columns, n = std::ssize(b) / columns;
  std::vector<std::int32_t> found(static_cast<std::size_t>(m));
  if (columns <= kFewColumns) {
    const Tiles tiles(b, columns);
    const std::int64_t some = std::clamp(kRows * kColumns / n, kLanes, kRows * kLanes);
    for (std::int64_t row = 0; row < m; row += some) {
      between_();
      constexpr std::int64_t kTogether = 64;  // rows
      const std::int64_t end = std::min(m, row + some);
      each((end - row + kTogether - 1) / kTogether, [&](std::int64_t part) {
        const std::int64_t first = row + part * kTogether;
        for (std::int64_t i = first; i < std::min(end, first + kTogether); ++i)
          found[static_cast<std::size_t>(i)] =
              tiles.nearest(&a[static_cast<std::size_t>(i * columns)]);
      });
    }
    return found;
  }
  std::vector<float> lengths;  // of b, squared and halved
  for (std::int64_t j = 0; j < n; ++j)
    lengths.push_back(inner_product(&b[static_cast<std::size_t>(j * columns)],
                                    &b[static_cast<std::size_t>(j * columns)], columns) /
                      2);
  for (std::int64_t row = 0; row < m; row += kRows) {
    const std::int64_t rows = std::min(kRows, m - row);
    std::vector<float> best(static_cast<std::size_t>(rows), -INFINITY);
    for (std::int64_t begin = 0; begin < n; begin += kColumns) {
      between_();
      const std::int64_t count = std::min(kColumns, n - begin);
      const auto part = [&](std::span<const float> of, std::int64_t first, std::int64_t some) {
        return of.subspan(static_cast<std::size_t>(first * columns),
                          static_cast<std::size_t>(some * columns));
      };
      const std::vector<float> dots = dot(part(a, row, rows), part(b, begin, count), columns);
      each(rows, [&](std::int64_t i) {
        const float* const here = &dots[static_cast<std::size_t>(i * count)];
        float& most = best[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < count; ++j) {
          const float close = here[j] - lengths[static_cast<std::size_t>(begin + j)];
          if (close <= most) continue;
          most = close;
          found[static_cast<std::size_t>(row + i)] = static_cast<std::int32_t>(begin + j);
        }
      });
    }
  }
  return found;
}

void Products::each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  run([&] { parallel_for(count, body); });
}

}  // namespace mt
