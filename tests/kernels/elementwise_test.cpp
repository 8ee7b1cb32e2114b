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

TYPED_TEST(ElementwiseTest, Clamp) {
  using T = TypeParam;
  std::vector<T> x = {-2, T(-0.5), T(-0.25), 0, T(0.5), T(0.75)}, dx = {1, 2, 3, 4, 5, 6};
  cpu::clamp_backward(dx.data(), dx.data(), x.data(), T(0.5), std::ssize(x));
  EXPECT_EQ(dx, (std::vector<T>{0, 2, 3, 4, 5, 0}));
  cpu::clamp_forward(x.data(), x.data(), T(0.5), std::ssize(x));
  EXPECT_EQ(x, (std::vector<T>{T(-0.5), T(-0.5), T(-0.25), 0, T(0.5), T(0.5)}));
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
