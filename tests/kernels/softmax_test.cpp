#include "kernels/softmax.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

template <class T>
void check_row(std::int64_t count) {
  const auto x = check::random<T>(count, 3, -20, -1);
  std::vector<T> y(x.size());
  T top = 0, total = 0, unstored = 0;
  cpu::run([&] {
    top = cpu::row_max(x.data(), count);
    total = cpu::row_exp_sum(y.data(), x.data(), T(-1.5), count);
    unstored = cpu::row_exp_sum<T>(nullptr, x.data(), T(-1.5), count);
  });
  T expected_top = -std::numeric_limits<T>::infinity();
  double expected_total = 0;
  std::vector<double> expected;
  for (const T value : x) {
    expected_top = std::max(expected_top, value);
    expected.push_back(std::exp(double(value) + 1.5));
    expected_total += expected.back();
  }
  EXPECT_EQ(top, expected_top) << count;
  EXPECT_TRUE(check::near(y, expected)) << count;
  EXPECT_NEAR(total, expected_total, check::kTolerance<T> * (1 + expected_total)) << count;
  EXPECT_EQ(unstored, total) << count;
}

TEST(Softmax, Rows) {
  for (const std::int64_t count : {0, 1, 15, 16, 31, 33, 1000}) {
    check_row<float>(count);
    check_row<double>(count);
  }
}

}  // namespace
}  // namespace mt
