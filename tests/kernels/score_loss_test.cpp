#include "kernels/score_loss.h"

#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

struct Judged {
  std::vector<double> loss, slope;
};

Judged judged(ScoreLoss kind, std::vector<double> x, const std::vector<double>& t,
              std::int64_t rows) {
  Judged judged{std::vector<double>(static_cast<std::size_t>(rows)), std::move(x)};
  const std::vector<double> weight(static_cast<std::size_t>(rows), 2);
  cpu::score_loss(judged.loss.data(), judged.slope.data(), t.data(), weight.data(), rows,
                  std::ssize(t) / rows, kind);
  return judged;
}

// torch.nn.MSELoss and BCEWithLogitsLoss, of each row.
TEST(ScoreLoss, Golden) {
  const Judged squared = judged(ScoreLoss::squared, {1, 2, -1, 0.5}, {0, 2, 1, 1}, 2);
  EXPECT_NEAR(squared.loss[0], 0.5, 1e-12);
  EXPECT_NEAR(squared.loss[1], 2.125, 1e-12);
  const Judged binary = judged(ScoreLoss::binary, {1, -2, 0, 3}, {1, 0, 1, 0}, 2);
  EXPECT_NEAR(binary.loss[0], (0.31326168751822286 + 0.12692801104297263) / 2, 1e-12);
  EXPECT_NEAR(binary.loss[1], (0.6931471805599453 + 3.048587351573742) / 2, 1e-12);
}

TEST(ScoreLoss, GradientIsTheDerivativeOfTheLoss) {
  for (const ScoreLoss kind : {ScoreLoss::squared, ScoreLoss::binary}) {
    std::vector<double> x = {0.3, -1.2, 2.5, 0.1, -40, 700};
    const std::vector<double> t = {1, 0, 1, 0.5, 0, 1};
    const std::vector<double> slope = judged(kind, x, t, 2).slope;
    for (std::size_t i = 0; i < x.size(); ++i) {
      constexpr double h = 1e-5;
      const auto at = [&](double step) {
        std::vector<double> moved = x;
        moved[i] += step;
        return 2 * judged(kind, moved, t, 2).loss[i / 3];
      };
      EXPECT_NEAR(slope[i], (at(h) - at(-h)) / (2 * h), 1e-6 * (1 + std::abs(slope[i]))) << i;
    }
  }
}

TEST(ScoreLoss, WithoutWeightsScoresStayAsTheyAre) {
  std::vector<float> x = {1, 2}, loss(1);
  const std::vector<float> t = {0, 0};
  cpu::score_loss<float>(loss.data(), x.data(), t.data(), nullptr, 1, 2, ScoreLoss::squared);
  EXPECT_EQ(x, (std::vector<float>{1, 2}));
  EXPECT_FLOAT_EQ(loss[0], 2.5);
}

}  // namespace
}  // namespace mt
