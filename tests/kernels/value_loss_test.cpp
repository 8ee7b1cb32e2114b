#include "kernels/value_loss.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt {
namespace {

// Two rows of three tokens, worked out by hand; of the last token nothing counts.
TEST(ValueLoss, Digits) {
  //                                near, far up, far down      far up, clipped to it, masked
  const std::vector<double> values{0.5, 1.0, -1.0, 2.0, 0.5, 9};
  const std::vector<double> returns{1, 2, 0, 0.4, 0.3, 0.2, 1, 0.3, 0, 0.5, 0.25, 0};
  const std::vector<double> mask{1, 1, 1, 1, 1, 0}, weight{1, 2, 3, 4, 5, 6};
  struct Case {
    double clip;
    std::vector<double> losses, clipped, gradient;
  };
  const Case cases[] = {
      // Clipped to old + or - 0.2 a value is further from its return where it goes towards that.
      {0.2, {0.125, 1.125, 0.5, 0.5, 0.02, 0}, {0, 1, 0, 0, 0, 0}, {-0.5, 0, -3, 4, 1, 0}},
      {0, {0.125, 0.5, 0.5, 0.5, 0.02, 0}, {0, 0, 0, 0, 0, 0}, {-0.5, -2, -3, 4, 1, 0}}};
  for (const Case& c : cases) {
    std::vector<double> x = values, loss(12);
    ValueTensors<double> tensors{.loss = loss.data(),
                                 .x = x.data(),
                                 .returns = returns.data(),
                                 .mask = mask.data(),
                                 .rows = 2,
                                 .tokens = 3};
    cpu::value_loss(tensors, c.clip);
    EXPECT_EQ(x, values);
    tensors.weight = weight.data();
    cpu::value_loss(tensors, c.clip);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(loss[i], c.losses[i], 1e-15) << i;
      EXPECT_EQ(loss[6 + i], c.clipped[i]) << i;
      EXPECT_NEAR(x[i], c.gradient[i], 1e-15) << i;
    }
  }
}

// The gradient is by how much the weighed losses change.
TEST(ValueLoss, Gradient) {
  constexpr int kTokens = 40;
  std::vector<double> values, returns, mask(kTokens, 1), weight;
  for (int i = 0; i < kTokens; ++i) {
    values.push_back(0.71 * ((i * 7) % 11) - 3.1);
    weight.push_back(0.1 + i % 5);
  }
  for (int i = 0; i < 2 * kTokens; ++i) returns.push_back(0.53 * ((i * 5) % 13) - 3);
  const auto total = [&](std::vector<double> x) {
    std::vector<double> loss(2 * kTokens);
    cpu::value_loss(ValueTensors<double>{.loss = loss.data(),
                                         .x = x.data(),
                                         .returns = returns.data(),
                                         .mask = mask.data(),
                                         .rows = 1,
                                         .tokens = kTokens},
                    0.5);
    double sum = 0;
    for (int i = 0; i < kTokens; ++i) sum += weight[i] * loss[i];
    return sum;
  };
  std::vector<double> gradient = values, loss(2 * kTokens);
  cpu::value_loss(ValueTensors<double>{.loss = loss.data(),
                                       .x = gradient.data(),
                                       .returns = returns.data(),
                                       .mask = mask.data(),
                                       .weight = weight.data(),
                                       .rows = 1,
                                       .tokens = kTokens},
                  0.5);
  for (int i = 0; i < kTokens; ++i) {
    std::vector<double> up = values, down = values;
    up[i] += 1e-6;
    down[i] -= 1e-6;
    EXPECT_NEAR((total(up) - total(down)) / 2e-6, gradient[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace mt
