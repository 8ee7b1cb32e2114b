#include "kernels/weighted_swiglu.h"

#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

constexpr std::int64_t kRows = 5, kCols = 33;

double by_hand(double weight, double gate, double up) {
  return weight * (gate / (1 + std::exp(-gate))) * up;
}

template <class T>
void expect_formula() {
  const auto x = random<T>(kRows * 2 * kCols, 1, -4, 4), w = random<T>(kRows, 2);
  std::vector<T> y(kRows * kCols);
  cpu::weighted_swiglu_forward(y.data(), x.data(), w.data(), kRows, kCols);
  std::vector<double> expected;
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < kCols; ++c)
      expected.push_back(by_hand(w[r], x[r * 2 * kCols + c], x[(r * 2 + 1) * kCols + c]));
  EXPECT_TRUE(check::near(y, expected));
}

TEST(WeightedSwiglu, IsItsFormula) {
  expect_formula<float>();
  expect_formula<double>();
}

TEST(WeightedSwiglu, BackwardIsTheDerivative) {
  const auto x = random<double>(kRows * 2 * kCols, 1), w = random<double>(kRows, 2),
             dy = random<double>(kRows * kCols, 3);
  std::vector<double> dx(x.size()), dw(kRows), y(dy.size());
  cpu::weighted_swiglu_backward(dx.data(), dw.data(), dy.data(), x.data(), w.data(), kRows, kCols);
  const auto loss = [&](const std::vector<double>& at, const std::vector<double>& weight) {
    cpu::weighted_swiglu_forward(y.data(), at.data(), weight.data(), kRows, kCols);
    return check::dot(y, dy);
  };
  check::expect_gradient(
      dx, [&](const auto& at) { return loss(at, w); }, x, 4);
  check::expect_gradient(
      dw, [&](const auto& weight) { return loss(x, weight); }, w, 5);
}

}  // namespace
}  // namespace mt
