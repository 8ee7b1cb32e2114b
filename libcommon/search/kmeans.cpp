#include "search/kmeans.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace mt {
namespace {

constexpr float kApart = 1 / 1024.0F;

// Numbers in (0, 1), one after another.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t purpose) : key_(RandomKey::make(seed, purpose)) {}
  double next() {
    const std::uint64_t at = count_++;
    return to_unit(
        philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32)}, key_)[0]);
  }

 private:
  RandomKey key_;
  std::uint64_t count_ = 0;
};

enum Purpose : std::uint32_t { order = 0x6B6D0001, split };

// Gives each centre without vectors a half of another's.
void split_others(std::vector<float>& centres, std::vector<std::int64_t>& sizes,
                  std::int64_t columns, std::int64_t vectors, Draws& draws) {
  const std::int64_t count = std::ssize(sizes);
  const auto all = static_cast<double>(vectors - count);
  for (std::int64_t empty = 0; empty < count; ++empty) {
    if (sizes[static_cast<std::size_t>(empty)] > 0) continue;
    std::int64_t donor = 0;
    for (;; donor = (donor + 1) % count) {
      const auto more = static_cast<double>(sizes[static_cast<std::size_t>(donor)] - 1);
      if (more > 0 && draws.next() < more / all) break;
    }
    float* const from = &centres[static_cast<std::size_t>(donor * columns)];
    float* const to = &centres[static_cast<std::size_t>(empty * columns)];
    for (std::int64_t i = 0; i < columns; ++i) {
      const float apart = i % 2 == 0 ? kApart : -kApart;
      to[i] = from[i] * (1 + apart);
      from[i] *= 1 - apart;
    }
    std::int64_t& has = sizes[static_cast<std::size_t>(donor)];
    sizes[static_cast<std::size_t>(empty)] = has / 2;
    has -= has / 2;
  }
}

}  // namespace

std::vector<std::int64_t> drawn_order(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  Draws draws(seed, Purpose::order);
  for (std::int64_t i = count; i > 1; --i)
    std::swap(numbers[static_cast<std::size_t>(i - 1)],
              numbers[static_cast<std::size_t>(draws.next() * static_cast<double>(i))]);
  return numbers;
}

std::vector<float> drawn_rows(std::span<const float> vectors, std::int64_t columns,
                              std::int64_t most, std::uint64_t seed) {
  const std::int64_t count = std::ssize(vectors) / columns;
  if (count <= most) return {vectors.begin(), vectors.end()};
  const std::vector<std::int64_t> numbers = drawn_order(count, seed);
  std::vector<float> rows;
  rows.reserve(static_cast<std::size_t>(most * columns));
  for (std::int64_t i = 0; i < most; ++i) {
    const auto row = vectors.begin() + numbers[static_cast<std::size_t>(i)] * columns;
    rows.insert(rows.end(), row, row + columns);
  }
  return rows;
}

std::vector<float> k_means(const KMeans& o, std::span<const float> vectors, Products& products) {
  const std::int64_t columns = o.columns, count = o.centres;
  const std::vector<float> points = drawn_rows(vectors, columns, count * kPointsPerCentre, o.seed);
  const std::int64_t rows = std::ssize(points) / columns;
  // The first centres are drawn by another seed than the points, which are in their order by now.
  std::vector<float> centres =
      o.begin.empty() ? drawn_rows(points, columns, count, o.seed + 1) : o.begin;
  Draws draws(o.seed, Purpose::split);
  for (int i = 0; i < o.iterations && rows > count; ++i) {
    const std::vector<std::int32_t> of = products.nearest(points, centres, columns);
    std::vector<double> sums(centres.size());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(count));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto centre = static_cast<std::size_t>(of[static_cast<std::size_t>(row)]);
      ++sizes[centre];
      double* const sum = &sums[centre * static_cast<std::size_t>(columns)];
      const float* const point = &points[static_cast<std::size_t>(row * columns)];
      for (std::int64_t j = 0; j < columns; ++j) sum[j] += static_cast<double>(point[j]);
    }
    for (std::size_t j = 0; j < centres.size(); ++j) {
      const std::int64_t size = sizes[j / static_cast<std::size_t>(columns)];
      if (size > 0) centres[j] = static_cast<float>(sums[j] / static_cast<double>(size));
    }
    split_others(centres, sizes, columns, rows, draws);
  }
  return centres;
}

}  // namespace mt
