#include "ckpt/tensor_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Blocks, TileInOrder) {
  for (const Shape& whole : {Shape{}, Shape{7}, Shape{3, 5}, Shape{2, 3, 4, 5}, Shape{4, 1, 6}})
    for (const std::int64_t most : {1, 2, 5, 7, 20, 1000}) {
      std::int64_t reached = 0;
      for_each_block(whole, most, [&](const Shape& offset, const Shape& shape) {
        EXPECT_LE(shape.numel(), most);
        std::int64_t first = 0;
        for (int axis = 0; axis < whole.rank(); ++axis) first = first * whole[axis] + offset[axis];
        EXPECT_EQ(first, reached) << whole << " by " << most;
        reached += shape.numel();
      });
      EXPECT_EQ(reached, whole.numel()) << whole << " by " << most;
    }
  for_each_block({3, 0}, 5, [](const Shape&, const Shape&) { FAIL(); });
}

TEST(TensorNumbers, CountWhatIsNotFinite) {
  TensorNumbers numbers;
  for (const double number : {3.0, 0.0, -1.0, std::nan(""), kInfinity, -kInfinity})
    numbers.add(number);
  EXPECT_EQ(numbers.count, 6);
  EXPECT_EQ(numbers.finite(), 3);
  EXPECT_EQ(numbers.nans, 1);
  EXPECT_EQ(numbers.infinities, 2);
  EXPECT_EQ(numbers.zeros, 1);
  EXPECT_EQ(numbers.least, -1);
  EXPECT_EQ(numbers.most, 3);
  EXPECT_DOUBLE_EQ(numbers.mean(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(numbers.rms(), std::sqrt(10.0 / 3));
}

TEST(TensorNumbers, OfEveryType) {
  const std::uint16_t bf16[] = {0x3f80, 0xc000}, f16[] = {0x3c00, 0xc000};
  const std::int64_t i64[] = {1, -2};
  const std::uint8_t u8[] = {1, 254}, i8[] = {1, 254};
  std::vector<double> numbers;
  const auto expect = [&](const void* data, DType dtype, double second) {
    to_doubles({data, dtype, {2}}, numbers);
    EXPECT_EQ(numbers, (std::vector<double>{1, second})) << name_of(dtype);
  };
  expect(bf16, DType::bf16, -2);
  expect(f16, DType::f16, -2);
  expect(i64, DType::i64, -2);
  expect(u8, DType::u8, 254);
  expect(i8, DType::i8, -2);
}

TEST(TensorDifference, KnowsHowFar) {
  TensorDifference same;
  for (const double number : {1.0, std::nan(""), kInfinity}) same.add(number, number);
  EXPECT_EQ(same.differing, 0);
  EXPECT_EQ(same.largest, 0);
  EXPECT_EQ(same.cosine(), 1);
  TensorDifference other;
  other.add(3, 4);
  other.add(4, -3);
  EXPECT_EQ(other.differing, 2);
  EXPECT_EQ(other.largest, 7);
  EXPECT_DOUBLE_EQ(other.rms(), 5);
  EXPECT_DOUBLE_EQ(other.cosine(), 0);
  for (const double number : {std::nan(""), kInfinity}) {
    TensorDifference broken;
    broken.add(1, number);
    broken.add(1, 2);
    EXPECT_FALSE(broken.largest <= 1e300);
  }
}

}  // namespace
}  // namespace mt
