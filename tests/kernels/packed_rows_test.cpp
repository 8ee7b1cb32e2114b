// Products with rows in the blocks of llama.cpp's files, against sums in double of what the blocks
// stand for.
#include "kernels/packed_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/kernels/check.h"
#include "tests/kernels/packed_bytes.h"

namespace mt {
namespace {

using check::kBlockTypes;
using check::packed;
using check::random;

std::vector<float> unpacked(const std::vector<std::uint8_t>& bytes) {
  const PackedRows rows(bytes.data());
  std::vector<float> numbers(static_cast<std::size_t>(rows.rows() * rows.cols()));
  cpu::unpack_rows(numbers.data(), bytes.data());
  return numbers;
}

std::vector<float> product(const std::vector<std::uint8_t>& w, const std::vector<float>& x,
                           std::int64_t n, const float* bias = nullptr) {
  const std::int64_t m = std::ssize(x) / PackedRows(w.data()).cols();
  std::vector<float> y(static_cast<std::size_t>(m * n), 7);
  cpu::packed_product({.y = y.data(),
                       .x = x.data(),
                       .w = w.data(),
                       .bias = bias,
                       .m = m,
                       .n = n,
                       .accumulate = false});
  return y;
}

// Rounding a row of x is an error of at most half of e for each number.
TEST(PackedRows, ProductsAreThoseOfTheNumbers) {
  for (const BlockType type : kBlockTypes)
    for (const std::int64_t cols : {256, 1280}) {
      SCOPED_TRACE(concat("type ", static_cast<int>(type), ", ", cols, " columns"));
      const std::int64_t rows = 37, m = 5;
      const auto w = packed(std::vector<BlockType>(rows, type), cols);
      const auto numbers = unpacked(w), x = random<float>(m * cols, 1),
                 bias = random<float>(rows, 2);
      const auto y = product(w, x, rows, bias.data());
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < rows; ++j) {
          double sum = bias[j], sizes = std::fabs(bias[j]), rounded = 0;
          for (std::int64_t k = 0; k < cols; k += 256) {
            double most = 0, weights = 0;
            for (std::int64_t c = k; c < k + 256; ++c) {
              const double a = x[i * cols + c], b = numbers[j * cols + c];
              sum += a * b, sizes += std::fabs(a * b);
              most = std::max(most, std::fabs(a)), weights += std::fabs(b);
            }
            rounded += 0.5 * most / 32767 * weights;
          }
          ASSERT_NEAR(y[i * rows + j], sum, 1.01 * rounded + 4e-6 * sizes + 1e-12) << i << " " << j;
        }
    }
}

// Rows of several types, and fewer rows than there are.
void expect_products(const std::vector<BlockType>& types, std::int64_t cols, std::size_t runs) {
  const std::int64_t n = std::ssize(types) - 1;
  const auto w = packed(types, cols);
  ASSERT_EQ(PackedRows(w.data()).runs().size(), runs);
  const auto numbers = unpacked(w), x = random<float>(3 * cols, 3);
  const auto y = product(w, x, n);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, sizes = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        sum += double{x[i * cols + c]} * numbers[j * cols + c];
        sizes += std::fabs(double{x[i * cols + c]} * numbers[j * cols + c]);
      }
      EXPECT_NEAR(y[i * n + j], sum, 1e-4 * sizes) << i << " " << j;
    }
}

// A part that is no whole group; numbers that are rounded beside some that are not.
TEST(PackedRows, RowsAreOfSeveralTypes) {
  using enum BlockType;
  expect_products({q8_0, q8_0, q5_1, q4_0, q4_0, q4_0, q4_0, q4_0, q5_0}, 320, 4);
  expect_products({int8, e4m3, e4m3, q8_0, e4m3}, 384, 4);
}

TEST(PackedRows, ARowHasTheBitsThatItHasAlone) {
  for (const BlockType type : kBlockTypes) {
    const std::int64_t cols = 512, rows = 21, m = 33;
    const auto w = packed(std::vector<BlockType>(rows, type), cols);
    const auto x = random<float>(m * cols, 4);
    const auto together = product(w, x, rows);
    for (std::int64_t i = 0; i < m; i += 8) {
      const auto alone = product(w, {x.begin() + i * cols, x.begin() + (i + 1) * cols}, rows);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + i * rows)) << i;
    }
  }
}

TEST(PackedRows, WhatIsNotFiniteMakesItsRowNan) {
  const auto w = packed(std::vector<BlockType>(6, BlockType::q4_k), 512);
  auto x = random<float>(3 * 512, 5);
  x[512 + 300] = std::numeric_limits<float>::infinity();
  x[0] = 1e30F;
  std::fill(x.begin() + 1024, x.end(), 0.0F);
  const auto y = product(w, x, 6);
  for (int j = 0; j < 6; ++j) {
    EXPECT_TRUE(std::isfinite(y[j])) << j;
    EXPECT_TRUE(std::isnan(y[6 + j])) << j;
    EXPECT_EQ(y[12 + j], 0) << j;
  }
}

TEST(PackedRows, AreLookedUp) {
  const auto w = packed({BlockType::q8_0, BlockType::q6_k, BlockType::q6_k, BlockType::q4_k}, 256);
  const auto numbers = unpacked(w);
  const std::vector<std::int32_t> ids = {13, 10, 12, -1, 14};  // the table's first is 10
  std::vector<float> y(ids.size() * 256, 7);
  cpu::packed_embedding(y.data(), ids.data(), w.data(), std::ssize(ids), {10, 4});
  const int rows[] = {3, 0, 2};
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(
        std::equal(y.begin() + i * 256, y.begin() + (i + 1) * 256, numbers.begin() + rows[i] * 256))
        << i;
  EXPECT_TRUE(std::all_of(y.begin() + 3 * 256, y.end(), [](float v) { return v == 0; }));
}

}  // namespace
}  // namespace mt
