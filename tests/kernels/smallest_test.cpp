#include "kernels/smallest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mt {
namespace {

constexpr float kNone = std::numeric_limits<float>::max();

TEST(Smallest, EqualOnesAreThoseOfSmallerNumbers) {
  const float nan = std::nanf("");
  const std::vector<float> values = {2, 0.0F, -1, -0.0F, 2, nan, 5};
  std::vector<std::int32_t> numbers(4);
  std::vector<float> distances(4);
  cpu::smallest(numbers.data(), distances.data(),
                {.values = values.data(), .rows = 1, .cols = 7, .count = 4});
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(distances, (std::vector<float>{2, 0, -1, 0}));
  const std::vector<std::int32_t> named = {9, 8, 7, 6, 5, 4, 3};
  numbers.resize(3);
  cpu::smallest(
      numbers.data(), distances.data(),
      {.values = values.data(), .numbers = named.data(), .rows = 1, .cols = 7, .count = 3});
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{8, 7, 6}));
}

TEST(Smallest, RowsMayHaveAnyLength) {
  const std::vector<float> values = {3, 1, 2, 7}, from = {10, 10};
  const std::vector<std::int64_t> begins = {0, 3, 3, 4};
  std::vector<std::int32_t> numbers(6);
  std::vector<float> distances(6);
  cpu::smallest(numbers.data(), distances.data(),
                {.values = values.data(), .begins = begins.data(), .rows = 3, .count = 2});
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{1, 2, -1, -1, 0, -1}));
  EXPECT_EQ(distances, (std::vector<float>{1, 2, kNone, kNone, 7, kNone}));
  cpu::smallest(numbers.data(), distances.data(),
                {.values = values.data(), .from = from.data(), .rows = 2, .cols = 2, .count = 1});
  EXPECT_EQ(numbers[0], 0);
  EXPECT_EQ(numbers[1], 1);
  EXPECT_EQ(distances[0], 7);
  EXPECT_EQ(distances[1], 3);
}

}  // namespace
}  // namespace mt
