#include "kernels/elementwise.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

template <class T>
class ElementwiseTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementwiseTest, Types);

TYPED_TEST(ElementwiseTest, Add) {
  using T = TypeParam;
  for (const std::int64_t count : {0, 1, 31, 33, 40000}) {
    const auto a = random<T>(count, 1), b = random<T>(count, 2);
    std::vector<T> y(a.size()), onto_b = b;
    cpu::add(y.data(), a.data(), b.data(), count);
    cpu::add(onto_b.data(), a.data(), onto_b.data(), count);
    std::vector<double> total(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) total[i] = double(a[i]) + b[i];
    EXPECT_TRUE(check::near(y, total)) << count;
    EXPECT_TRUE(check::near(onto_b, total)) << count;
  }
}

TYPED_TEST(ElementwiseTest, ColumnSumAddsToY) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {0, 1, 31, 33, 200}) {
      const auto x = random<T>(rows * cols, 1);
      auto y = random<T>(cols, 2);
      std::vector<double> expected(y.begin(), y.end());
      for (std::int64_t i = 0; i < rows * cols; ++i) expected[i % cols] += x[i];
      cpu::column_sum(y.data(), x.data(), rows, cols);
      EXPECT_TRUE(check::near(y, expected)) << rows << " x " << cols;
    }
}

TYPED_TEST(ElementwiseTest, SumSquares) {
  for (const std::int64_t count : {0, 1, 31, 33, 4095, 4096, 4097, 100000}) {
    const auto x = random<TypeParam>(count, 1);
    double expected = 0;
    for (const double value : x) expected += value * value;
    EXPECT_NEAR(cpu::sum_squares(x.data(), count), expected, 1e-12 * expected) << count;
  }
}

TEST(Elementwise, NormalNumbersFollowTheFormula) {
  const RandomKey key = RandomKey::make(99, 3);
  const std::int64_t first = (3ll << 33) + 1;  // beyond 32 bits, and odd
  std::vector<double> got(33), expected(33);
  cpu::fill_normal(got.data(), first, 33, 0.5, 2.0, key);
  for (std::int64_t i = 0; i < 33; ++i) {
    const auto pair = static_cast<std::uint64_t>(first + i) / 2;
    const Counter words = philox(
        {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), 0, 0}, key);
    const double radius = std::sqrt(-2 * std::log(to_unit(words[0])));
    const double angle = 2 * M_PI * to_unit(words[1]);
    expected[i] = 0.5 + 2 * radius * ((first + i) % 2 ? std::sin(angle) : std::cos(angle));
  }
  EXPECT_TRUE(check::near(got, expected));
}

TEST(Elementwise, NormalNumbersHaveTheirMoments) {
  constexpr std::int64_t kCount = 1000000;
  std::vector<double> x(kCount);
  cpu::fill_normal(x.data(), 0, kCount, 0.0, 1.0, RandomKey::make(1, 1));
  double power[5] = {};
  for (const double value : x)
    for (int k = 1; k <= 4; ++k) power[k] += std::pow(value, k) / kCount;
  EXPECT_NEAR(power[1], 0, 5e-3);
  EXPECT_NEAR(power[2], 1, 1e-2);
  EXPECT_NEAR(power[3], 0, 2e-2);
  EXPECT_NEAR(power[4], 3, 6e-2);
}

// A slice made by itself equals the slice of the whole: what a shard of a weight needs.
TEST(Elementwise, NormalNumbersAreAFunctionOfPlace) {
  const RandomKey key = RandomKey::make(5, 6);
  std::vector<float> whole(50000), part(777);
  cpu::fill_normal(whole.data(), 0, 50000, 0.0, 0.02, key);
  cpu::fill_normal(part.data(), 20001, 777, 0.0, 0.02, key);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 20001));
}

TEST(Elementwise, SameBitsOnAnyThreads) {
  const auto x = random<float>(300 * 500, 1);
  check::expect_same_on_any_threads([&] {
    std::vector<float> y(500);
    cpu::column_sum(y.data(), x.data(), 300, 500);
    return y;
  });
  check::expect_same_on_any_threads(
      [&] { return std::vector<double>{cpu::sum_squares(x.data(), std::ssize(x))}; });
}

}  // namespace
}  // namespace mt
