#include "kernels/view_loss.h"

#include <cmath>
#include <numeric>

#include "tests/kernels/check.h"

namespace mt {
namespace {

struct Judged {
  std::vector<double> loss, slope;
};

Judged judged(std::vector<double> s, std::vector<double> t, const std::vector<double>& center,
              double sharpness, const Views& views) {
  const auto rows = static_cast<std::size_t>(views.rows());
  Judged judged{std::vector<double>(rows), std::move(s)};
  const std::vector<double> sharp(2 * static_cast<std::size_t>(views.images), sharpness);
  std::vector<double> weight(rows);
  std::iota(weight.begin(), weight.end(), 1);
  cpu::view_loss(judged.loss.data(), judged.slope.data(), t.data(), center.data(), sharp.data(),
                 weight.data(), views);
  return judged;
}

const std::vector<double> kTeacher = {.05, .1, 0, .1, .2, -.1, .3, .2};

// serving-eval-retrieval.md 5.1
TEST(ViewLoss, Golden) {
  const Judged made = judged({.1, .2, .2, -.1, 0, .3, .4, .1, -.2, 0, .3, .3}, kTeacher, {0, 0},
                             1 / 0.04, {.images = 2, .others = 1, .cols = 2});
  EXPECT_NEAR(std::reduce(made.loss.begin(), made.loss.end()) / 2, .984766, 1e-6);
}

TEST(ViewLoss, GradientIsTheDerivativeOfTheLoss) {
  const Views views{.images = 2, .others = 3, .cols = 2};
  std::vector<double> s;
  for (int i = 0; i < 20; ++i) s.push_back(0.4 * std::sin(1.3 * i));
  const auto of = [&](const std::vector<double>& x) {
    return judged(x, kTeacher, {0.05, -0.1}, 5, views);
  };
  const std::vector<double> slope = of(s).slope;
  for (std::size_t i = 0; i < s.size(); ++i) {
    constexpr double h = 1e-5;
    const auto at = [&](double step) {
      std::vector<double> moved = s;
      moved[i] += step;
      return static_cast<double>(i / 2 + 1) * of(moved).loss[i / 2];
    };
    EXPECT_NEAR(slope[i], (at(h) - at(-h)) / (2 * h), 1e-6) << i;
  }
}

TEST(ViewLoss, LargeNumbersDoNotOverflow) {
  const Judged made = judged({4000, 0, 0, 4000, 4000, 4000}, {9000, 0, 0, -9000}, {0, 0}, 25,
                             {.images = 1, .others = 1, .cols = 2});
  for (const double x : made.loss) EXPECT_TRUE(std::isfinite(x));
  for (const double x : made.slope) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace mt
