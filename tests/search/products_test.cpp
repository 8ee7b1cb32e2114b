#include "search/products.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/near_rows.h"
#include "search/kmeans.h"

namespace mt {
namespace {

// Whole numbers, whose products are exact in any order, and near each other, so that many are
// alike.
std::vector<float> whole_numbers(std::int64_t count, std::uint32_t purpose) {
  const RandomKey key = RandomKey::make(1, purpose);
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(
        static_cast<float>(philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key)[0] % 7) - 3);
  return numbers;
}

TEST(Products, TheNearestIsTheFirstOfThoseThatAreAsNear) {
  for (const std::int64_t columns : {1, 3, 32, 33})
    for (const std::int64_t centres : {1, 255, 256, 257, 600}) {
      const std::int64_t rows = 100;
      const std::vector<float> a = whole_numbers(rows * columns, 1),
                               b = whole_numbers(centres * columns, 2);
      std::vector<std::int32_t> expected;
      for (std::int64_t i = 0; i < rows; ++i) {
        std::int64_t best = 0;
        const auto far = [&](std::int64_t j) {
          return cpu::squared_distance(&a[static_cast<std::size_t>(i * columns)],
                                       &b[static_cast<std::size_t>(j * columns)], columns);
        };
        for (std::int64_t j = 1; j < centres; ++j)
          if (far(j) < far(best)) best = j;
        expected.push_back(static_cast<std::int32_t>(best));
      }
      for (const int threads : {1, 3}) {
        Products products(threads);
        std::vector<std::int32_t> found(expected.size());
        products.nearest(Tensor(found.data(), DType::i32, {1, rows}),
                         products.rows(a, columns).tensor,
                         products.rows(b, columns).tensor.reshape({1, centres, columns}));
        EXPECT_EQ(found, expected) << columns << " columns, " << centres << " centres";
      }
    }
}

TEST(KMeans, OfATensorIsTheSame) {
  const std::int64_t columns = 12;
  Products products(2);
  for (const std::int64_t rows : {3, 700, 2000}) {  // of more than 768 some are drawn
    const std::vector<float> points = whole_numbers(rows * columns, 3);
    const KMeans options = {.centres = 3, .columns = columns, .parts = 2, .iterations = 5};
    KMeans on = options;
    on.begin = k_means(options, points, products);
    const ConstTensor there = products.rows(points, columns).tensor;
    EXPECT_EQ(k_means(options, there, products), on.begin) << rows;
    EXPECT_EQ(k_means(on, there, products), k_means(on, points, products)) << rows;
  }
}

TEST(KMeans, InPiecesIsTheSame) {
  const std::int64_t columns = 12, rows = 1000;
  const std::vector<float> points = whole_numbers(rows * columns, 3);
  Products products(2);
  for (const std::int64_t parts : {1, 3}) {
    const auto centres = [&](std::int64_t rows_of_piece, bool stay) {
      return k_means({.centres = 20,
                      .columns = columns,
                      .parts = parts,
                      .iterations = 5,
                      .piece_numbers = rows_of_piece * columns,
                      .pieces_stay = stay},
                     points, products);
    };
    const std::vector<float> whole = centres(rows, true);
    for (const std::int64_t rows_of_piece : {1, 333, 999})
      for (const bool stay : {true, false}) EXPECT_EQ(centres(rows_of_piece, stay), whole);
  }
}

}  // namespace
}  // namespace mt
