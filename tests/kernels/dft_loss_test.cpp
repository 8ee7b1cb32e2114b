#include "kernels/dft_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mt {
namespace {

// Of log-probabilities of -0.5, -1 and -2; as TRL's dft_loss().
TEST(DftLoss, Golden) {
  std::vector<double> x = {0.5, 1, 2}, loss(3);
  cpu::dft_loss<double>(loss.data(), x.data(), nullptr, 3);
  EXPECT_NEAR((loss[0] + loss[1] + loss[2]) / 3, 0.313938, 1e-6);
  EXPECT_EQ(x, (std::vector<double>{0.5, 1, 2}));
}

TEST(DftLoss, ProbabilitiesAreConstants) {
  std::vector<double> x = {0.5, 1}, loss(2);
  const std::vector<double> weight = {2, 0};
  cpu::dft_loss(loss.data(), x.data(), weight.data(), 2);
  EXPECT_DOUBLE_EQ(x[0], 2 * std::exp(-0.5));
  EXPECT_EQ(x[1], 0);
}

}  // namespace
}  // namespace mt
