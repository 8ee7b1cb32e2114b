#include "kernels/near_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/code_products.h"
#include "kernels/code_sums.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What distances to all tell.
std::vector<std::pair<float, std::int64_t>> all_of(const float* x, const std::vector<float>& others,
                                                   std::int64_t columns, bool inner) {
  std::vector<std::pair<float, std::int64_t>> all;
  for (std::int64_t j = 0; j < std::ssize(others) / columns; ++j) {
    const float* const other = &others[static_cast<std::size_t>(j * columns)];
    const float far =
        inner ? -cpu::inner_product(x, other, columns) : cpu::squared_distance(x, other, columns);
    all.emplace_back(std::isnan(far) ? kInfinity : far, j);
  }
  std::ranges::sort(all);
  return all;
}

void expect_found(const std::vector<float>& x, const std::vector<float>& others,
                  std::int64_t columns, std::int64_t count, bool inner) {
  const std::int64_t rows = std::ssize(x) / columns, all = std::ssize(others) / columns;
  const RowCodes codes(others.data(), all, columns, inner);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows * count)), expected;
  std::vector<float> distances(numbers.size()), right;
  std::vector<std::int32_t> first(static_cast<std::size_t>(rows)), nearest;
  const NearRows problem = {
      .x = x.data(), .rows = rows, .vectors = others.data(), .codes = &codes, .count = count};
  cpu::near_rows(numbers.data(), distances.data(), problem);
  cpu::nearest_rows(first.data(),
                    {.x = x.data(), .rows = rows, .vectors = others.data(), .codes = &codes});
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto of_row = all_of(&x[static_cast<std::size_t>(i * columns)], others, columns, inner);
    nearest.push_back(static_cast<std::int32_t>(of_row.front().second));
    for (std::int64_t k = 0; k < count; ++k) {
      const bool there = k < all;
      expected.push_back(there ? of_row[static_cast<std::size_t>(k)].second : -1);
      right.push_back(there ? of_row[static_cast<std::size_t>(k)].first
                            : std::numeric_limits<float>::max());
    }
  }
  EXPECT_EQ(numbers, expected) << columns << " columns, " << all << " vectors, " << count;
  EXPECT_EQ(distances, right) << columns << " columns, " << all << " vectors, " << count;
  EXPECT_EQ(first, nearest) << columns << " columns, " << all << " vectors";
}

TEST(NearRows, AreThoseOfAllDistances) {
  for (const bool inner : {false, true})
    for (const std::int64_t columns : {1, 7, 33, 130})
      for (const std::int64_t all : {1, 63, 65, 1100})
        for (const std::int64_t count : {1, 10, 70}) {
          const std::vector<float> x = check::random<float>(50 * columns, 1, -1, 1);
          std::vector<float> others = check::random<float>(all * columns, 2, -1, 1);
          std::copy_n(x.begin(), std::min(x.size(), others.size()) / 2, others.begin());
          expect_found(x, others, columns, count, inner);
        }
}

TEST(NearRows, ManyAreAsNear) {
  std::vector<float> x = check::random<float>(60 * 40, 3, -2.5, 2.5),
                     others = check::random<float>(700 * 40, 4, -2.5, 2.5);
  for (float& number : x) number = std::round(number) / 2 + 100;
  for (float& number : others) number = std::round(number) / 2 + 100;
  for (const std::int64_t count : {1, 20}) expect_found(x, others, 40, count, false);
}

TEST(NearRows, OfOddNumbersAndSizes) {
  const std::int64_t columns = 20;
  for (const float size : {1e-30F, 1e-19F, 1e-10F, 1.0F, 1e10F, 1e30F}) {
    std::vector<float> x = check::random<float>(40 * columns, 5, -1, 1),
                       others = check::random<float>(200 * columns, 6, -1, 1);
    for (float& number : x) number *= size;
    for (float& number : others) number *= size;
    std::fill_n(x.begin(), columns, 0.0F);
    std::fill_n(others.begin() + 3 * columns, columns, 0.0F);
    others[static_cast<std::size_t>(5 * columns)] = kInfinity;
    others[static_cast<std::size_t>(6 * columns + 1)] = std::nanf("");
    others[static_cast<std::size_t>(7 * columns + 2)] = 1e4F * size;  // one alone is large
    for (const bool inner : {false, true})
      for (const std::int64_t count : {1, 5, 200}) expect_found(x, others, columns, count, inner);
  }
}

// The first's products of codes do not have 32 bits, and the last's have.
TEST(NearRows, OfVeryManyColumns) {
  const std::int64_t columns = 2 * RowCodes::kMostColumns + 10000, all = 5;
  std::vector<float> x(static_cast<std::size_t>(columns), 1), others;
  for (std::int64_t j = 0; j < all; ++j)
    for (std::int64_t c = 0; c < columns; ++c)
      others.push_back(c * all < columns * (all - j) ? 1.0F : 0.1F);
  for (const bool inner : {false, true}) expect_found(x, others, columns, 1, inner);
}

// More than wait for their distances.
TEST(NearRows, NothingIsLeftOut) {
  const std::int64_t columns = 3, all = 20000;
  std::vector<float> x = check::random<float>(2 * columns, 13, -1, 1), others;
  x.push_back(std::nanf(""));
  x.resize(3 * static_cast<std::size_t>(columns), 1.0F);
  for (std::int64_t j = 0; j < all * columns; ++j) others.push_back(0.25F);
  for (const std::int64_t j : {9000, 19999}) others[static_cast<std::size_t>(j * columns)] = 0.3F;
  for (const bool inner : {false, true})
    for (const std::int64_t count : {1, 7}) expect_found(x, others, columns, count, inner);
}

TEST(CodeProducts, AreExact) {
  for (const std::int64_t depth : {1, 2, 17}) {
    const std::int64_t rows = 2 * cpu::kCodeRows, width = 4 * depth, stride = cpu::kCodeTile + 3;
    std::vector<std::int8_t> x;
    std::vector<std::uint8_t> tile;
    for (const float number : check::random<float>(rows * width, 7, -127.4F, 127.4F))
      x.push_back(static_cast<std::int8_t>(std::round(number)));
    for (const float number : check::random<float>(width * cpu::kCodeTile, 8, 0.6F, 255.4F))
      tile.push_back(static_cast<std::uint8_t>(std::round(number)));
    std::fill_n(x.begin(), width, std::int8_t{-127});
    std::ranges::fill(tile.begin(), tile.begin() + 4, std::uint8_t{255});
    std::vector<std::int32_t> starts, out(static_cast<std::size_t>(rows * stride), 9),
        expected = out;
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int32_t sum = 0;
      for (std::int64_t c = 0; c < width; ++c) sum += x[static_cast<std::size_t>(i * width + c)];
      starts.push_back(-128 * sum);
      for (std::int64_t j = 0; j < cpu::kCodeTile; ++j) {
        std::int32_t& to = expected[static_cast<std::size_t>(i * stride + j)];
        to = 0;
        for (std::int64_t c = 0; c < width; ++c)
          to += x[static_cast<std::size_t>(i * width + c)] *
                (tile[static_cast<std::size_t>((c / 4 * cpu::kCodeTile + j) * 4 + c % 4)] - 128);
      }
    }
    cpu::code_products({.out = out.data(),
                        .stride = stride,
                        .x = x.data(),
                        .starts = starts.data(),
                        .rows = rows,
                        .depth = depth,
                        .tile = tile.data()});
    EXPECT_EQ(out, expected) << depth;
  }
}

TEST(SquaredDistances, AreThoseOfEachTwo) {
  for (const std::int64_t columns : {1, 16, 37})
    for (const std::int64_t m : {0, 1, 5}) {
      const std::int64_t n = 9;
      const std::vector<float> a = check::random<float>(m * columns, 9, -1, 1),
                               b = check::random<float>(n * columns, 10, -1, 1);
      std::vector<float> far(static_cast<std::size_t>(m * n)), right;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          right.push_back(cpu::squared_distance(&a[static_cast<std::size_t>(i * columns)],
                                                &b[static_cast<std::size_t>(j * columns)],
                                                columns));
      cpu::squared_distances(far.data(), a.data(), m, b.data(), n, columns);
      EXPECT_EQ(far, right) << columns << " columns, " << m;
    }
}

TEST(SquaredDistances, AreOfRowsWithNumbers) {
  for (const std::int64_t columns : {1, 16, 37})
    for (const std::int64_t count : {0, 1, 5, 16, 33}) {
      const std::int64_t rows = 9;
      const std::vector<float> x = check::random<float>(columns, 13, -1, 1),
                               b = check::random<float>(rows * columns, 14, -1, 1);
      std::vector<std::int32_t> numbers;
      std::vector<float> far(static_cast<std::size_t>(count)), right;
      for (std::int64_t i = 0; i < count; ++i) {
        numbers.push_back(static_cast<std::int32_t>(i * 5 % rows));
        right.push_back(cpu::squared_distance(
            x.data(), &b[static_cast<std::size_t>(numbers.back() * columns)], columns));
      }
      cpu::squared_distances_of(far.data(), x.data(), b.data(), numbers.data(), count, columns);
      EXPECT_EQ(far, right) << columns << " columns, " << count;
    }
}

TEST(CodeSums, AreLowerBounds) {
  for (const std::int64_t parts : {1, 5, 32, 256}) {
    const std::vector<float> table = check::random<float>(parts * 256, 11, -3, 2);
    const std::int64_t count = 130;
    std::vector<std::uint8_t> codes;
    for (const float number : check::random<float>(count * parts, 12, -0.4F, 255.4F))
      codes.push_back(static_cast<std::uint8_t>(std::round(number)));
    cpu::ByteTables tables;
    tables.fill(table);
    const std::vector<std::uint8_t> tiles = cpu::by_parts(codes, parts);
    ASSERT_EQ(std::ssize(tiles), 3 * parts * cpu::kCodesTogether);
    std::uint16_t sums[cpu::kCodesTogether];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t place = i % cpu::kCodesTogether;
      if (place == 0) cpu::byte_sums(sums, &tiles[static_cast<std::size_t>(i * parts)], tables);
      double right = 0, whole = 0;
      for (std::int64_t p = 0; p < parts; ++p) {
        const std::uint8_t code = codes[static_cast<std::size_t>(i * parts + p)];
        right += static_cast<double>(table[static_cast<std::size_t>(p * 256 + code)]);
        whole += tables.bytes[static_cast<std::size_t>(p * 256 + code)];
      }
      const double bound =
          static_cast<double>(tables.low) + static_cast<double>(tables.step) * whole;
      EXPECT_LE(bound, right + 1e-4) << i;
      EXPECT_GE(bound, right - static_cast<double>(parts * tables.step) - 1e-4) << i;
      EXPECT_EQ(sums[place], whole) << i;
    }
  }
  std::vector<float> wide(256, -3e38F);
  wide[0] = 3e38F;
  for (const std::vector<float>& table : {std::vector<float>(256, kInfinity), wide}) {
    cpu::ByteTables none;
    none.fill(table);
    EXPECT_TRUE(none.bytes.empty());
  }
  // All that 16 bits hold.
  cpu::ByteTables most{.bytes = std::vector<std::uint8_t>(cpu::kMostCodeParts * 256, 255)};
  const std::vector<std::uint8_t> tile(
      static_cast<std::size_t>(cpu::kMostCodeParts * cpu::kCodesTogether), 200);
  std::uint16_t sums[cpu::kCodesTogether];
  cpu::byte_sums(sums, tile.data(), most);
  for (const std::uint16_t sum : sums) EXPECT_EQ(sum, 65280);
}

}  // namespace
}  // namespace mt
