#include "search/kmeans.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/random.h"
#include "ops/nearest.h"
#include "ops/ops.h"

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

// Points: vectors where products are made, some at a time, which stay there if there is room.
class Points {
 public:
  Points(std::span<const float> all, const KMeans& o, Products& products)
      : all_(all),
        columns_(o.columns),
        count_(std::ssize(all) / o.columns),
        rows_(std::max<std::int64_t>(1, o.piece_numbers / o.columns)),
        products_(products) {
    if (!o.pieces_stay || !products.has_room(all.size_bytes() + kRest)) return;
    for (std::int64_t at = 0; at < count_; at += rows_) here_.push_back(piece(at));
  }
  // Those that are there already.
  Points(ConstTensor all, Products& products)
      : columns_(all.shape()[1]), count_(all.shape()[0]), rows_(count_), products_(products) {
    here_.push_back({all});
  }
  std::int64_t count() const { return count_; }
  std::int64_t rows_of_piece() const { return rows_; }

  void for_each(const std::function<void(ConstTensor)>& body) {
    for (const Products::Rows& x : here_) body(x.tensor);
    for (std::int64_t at = 0; here_.empty() && at < count_; at += rows_) {
      const Products::Rows x = piece(at);
      body(x.tensor);
      products_.stream().synchronize();  // before its memory goes
    }
  }

 private:
  static constexpr std::size_t kRest = std::size_t{4} << 30;  // that is needed beside all of them

  Products::Rows piece(std::int64_t at) {
    const std::int64_t rows = std::min(rows_, count_ - at);
    return products_.rows(all_.subspan(static_cast<std::size_t>(at * columns_),
                                       static_cast<std::size_t>(rows * columns_)),
                          columns_);
  }

  std::span<const float> all_ = {};
  std::int64_t columns_, count_, rows_;
  Products& products_;
  std::vector<Products::Rows> here_ = {};
};

// Gives each centre without vectors a half of another's.
void split_others(std::span<float> centres, std::span<std::int32_t> sizes, std::int64_t columns,
                  std::int64_t vectors, Draws& draws) {
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
    std::int32_t& has = sizes[static_cast<std::size_t>(donor)];
    sizes[static_cast<std::size_t>(empty)] = has / 2;
    has -= has / 2;
  }
}

// Rows of columns in parts, [rows, parts, width], as [parts, rows, width].
std::vector<float> in_parts(std::vector<float> rows, std::int64_t columns, std::int64_t parts) {
  if (parts == 1) return rows;
  const std::int64_t width = columns / parts;
  std::vector<float> result;
  result.reserve(rows.size());
  for (std::int64_t part = 0; part < parts; ++part)
    for (auto row = rows.begin(); row != rows.end(); row += columns)
      result.insert(result.end(), row + part * width, row + (part + 1) * width);
  return result;
}

// The first centres are drawn by another seed than the points, which are in their order by now.
std::vector<float> first_centres(const KMeans& o, std::span<const float> points) {
  if (!o.begin.empty()) return o.begin;
  return in_parts(drawn_rows(points, o.columns, o.centres, o.seed + 1), o.columns, o.parts);
}

// Goes on from these centres, of which there are fewer than points.
std::vector<float> moved_centres(std::vector<float> centres, const KMeans& o, Points& points,
                                 Products& products) {
  const std::int64_t count = o.centres, width = o.columns / o.parts, rows = points.count();
  const Tensor sizes = products.scratch(Products::kSizes, DType::i32, {o.parts, count}),
               sums = products.scratch(Products::kSums, DType::f64, {o.parts, count, width}),
               now = products.scratch(Products::kCentres, DType::f32, {o.parts, count, width});
  products.put(now, centres.data());
  std::vector<Draws> draws(static_cast<std::size_t>(o.parts), Draws(o.seed, Purpose::split));
  for (int i = 0; i < o.iterations; ++i) {
    set_zero(sums, products.stream());
    set_zero(sizes, products.stream());
    points.for_each([&](ConstTensor x) {
      const Tensor found = products.scratch(Products::kFound, DType::i32, {o.parts, x.shape()[0]});
      products.nearest(found, x, now);
      add_to_groups(sums, sizes, found, x, products.stream());
    });
    group_means(now, sums, sizes, products.stream());
    std::vector<std::int32_t> all = products.values<std::int32_t>(sizes);
    if (std::ranges::find(all, 0) == all.end()) continue;
    products.get(centres.data(), now);
    for (std::int64_t part = 0; part < o.parts; ++part)
      split_others(std::span(centres).subspan(static_cast<std::size_t>(part * count * width),
                                              static_cast<std::size_t>(count * width)),
                   std::span(all).subspan(static_cast<std::size_t>(part * count),
                                          static_cast<std::size_t>(count)),
                   width, rows, draws[static_cast<std::size_t>(part)]);
    products.put(now, centres.data());
  }
  products.get(centres.data(), now);
  return centres;
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
  const std::int64_t most = o.centres * kPointsPerCentre;
  std::vector<float> drawn;
  if (std::ssize(vectors) > most * o.columns) drawn = drawn_rows(vectors, o.columns, most, o.seed);
  const std::span<const float> all = drawn.empty() ? vectors : drawn;
  std::vector<float> centres = first_centres(o, all);
  if (std::ssize(all) <= o.centres * o.columns) return centres;
  Points points(all, o, products);
  return moved_centres(std::move(centres), o, points, products);
}

std::vector<float> k_means(const KMeans& o, ConstTensor vectors, Products& products) {
  const std::int64_t rows = vectors.shape()[0];
  if (rows > o.centres * kPointsPerCentre)
    return k_means(o, products.values<float>(vectors), products);
  std::vector<float> centres =
      o.begin.empty() ? first_centres(o, products.values<float>(vectors)) : o.begin;
  if (rows <= o.centres) return centres;
  Points points(vectors, products);
  return moved_centres(std::move(centres), o, points, products);
}

}  // namespace mt
