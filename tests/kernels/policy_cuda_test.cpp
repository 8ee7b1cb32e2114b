// Losses of texts that a policy wrote, of what is said of their worth, and the slopes of both, are
// the CPU's on a GPU.
#include <cmath>

#include "kernels/policy_loss.h"
#include "kernels/value_loss.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class PolicyCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

std::vector<float> numbers(std::size_t count, float scale, float shift) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = shift + scale * std::sin(1.7F * static_cast<float>(i) + scale);
  return all;
}

TEST_F(PolicyCuda, LossesAndSlopes) {
  constexpr std::int64_t kRows = 2, kTokens = 1000, kTexts = 4;
  constexpr std::size_t kRow = kTokens;
  const std::vector<std::int32_t> lengths = {1, 31, 33, 700, 0, 600, 0, 257};
  const std::size_t tokens = kRows * kTokens;
  const std::vector<float> x = numbers(tokens, 1, 1.5F), advantage = numbers(tokens, 2, 0),
                           weight = numbers(tokens, 1, 2);
  std::vector<float> others(3 * tokens), mask(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    mask[i] = i % 5 == 0 ? 0.0F : 1.0F;
    for (std::size_t k = 0; k < 3; ++k)
      others[(i / kRow * 3 + k) * kRow + i % kRow] =
          i % 7 == 0 ? kUnknown : -x[i] + 0.3F * std::sin(static_cast<float>(3 * i + k));
  }
  for (int loss = 0; loss <= static_cast<int>(PolicyLoss::vespo); ++loss)
    for (const RatioOf ratio_of : {RatioOf::tokens, RatioOf::mean_of_text, RatioOf::text}) {
      PolicyRules rules;
      rules.loss = static_cast<PolicyLoss>(loss);
      if (ratio_of != RatioOf::tokens && rules.loss == PolicyLoss::vespo) continue;
      rules.ratio_of = ratio_of;
      rules.beta = 0.1;
      rules.entropy = 0.1;
      rules.correction = Correction::truncated;
      rules.correction_high = 1.1;
      std::vector<float> expected(kPolicyRows * tokens), slopes = x;
      cpu::policy_loss(PolicyTensors<float>{.loss = expected.data(),
                                            .x = slopes.data(),
                                            .others = others.data(),
                                            .advantage = advantage.data(),
                                            .mask = mask.data(),
                                            .weight = weight.data(),
                                            .rows = {lengths.data(), kRows, kTokens, kTexts}},
                       rules);
      const DeviceArray<std::int32_t> d_lengths(lengths);
      const DeviceArray<float> d_loss(expected.size()), d_x(x), d_others(others),
          d_advantage(advantage), d_mask(mask), d_weight(weight);
      cuda::policy_loss(PolicyTensors<float>{.loss = d_loss.data(),
                                             .x = d_x.data(),
                                             .others = d_others.data(),
                                             .advantage = d_advantage.data(),
                                             .mask = d_mask.data(),
                                             .weight = d_weight.data(),
                                             .rows = {d_lengths.data(), kRows, kTokens, kTexts}},
                        rules, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      const auto got = d_loss.values(), got_slopes = d_x.values();
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-5F * (1 + std::abs(expected[i]))) << loss << ", " << i;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(got_slopes[i], slopes[i], 1e-5F * (1 + std::abs(slopes[i])))
            << loss << ", " << i;
    }
}

TEST_F(PolicyCuda, ValuesAndSlopes) {
  constexpr std::int64_t kRows = 3, kTokens = 700;
  const std::size_t tokens = kRows * kTokens;
  const std::vector<float> x = numbers(tokens, 1, 0), returns = numbers(2 * tokens, 1.3F, 0.1F),
                           weight = numbers(tokens, 1, 2);
  std::vector<float> mask(tokens);
  for (std::size_t i = 0; i < tokens; ++i) mask[i] = i % 5 == 0 ? 0.0F : 1.0F;
  for (const double clip : {0.0, 0.2})
    for (const bool learns : {false, true}) {
      std::vector<float> expected(2 * tokens), slopes = x;
      cpu::value_loss(ValueTensors<float>{.loss = expected.data(),
                                          .x = slopes.data(),
                                          .returns = returns.data(),
                                          .mask = mask.data(),
                                          .weight = learns ? weight.data() : nullptr,
                                          .rows = kRows,
                                          .tokens = kTokens},
                      clip);
      const DeviceArray<float> d_loss(expected.size()), d_x(x), d_returns(returns), d_mask(mask),
          d_weight(weight);
      cuda::value_loss(ValueTensors<float>{.loss = d_loss.data(),
                                           .x = d_x.data(),
                                           .returns = d_returns.data(),
                                           .mask = d_mask.data(),
                                           .weight = learns ? d_weight.data() : nullptr,
                                           .rows = kRows,
                                           .tokens = kTokens},
                       clip, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      const auto got = d_loss.values(), got_slopes = d_x.values();
      int clipped = 0;
      for (std::size_t i = 0; i < tokens; ++i) {
        ASSERT_NEAR(got[i], expected[i], 1e-6F * (1 + expected[i])) << clip << ", " << i;
        ASSERT_EQ(got[tokens + i], expected[tokens + i]) << clip << ", " << i;
        ASSERT_NEAR(got_slopes[i], slopes[i], 1e-6F * (1 + std::abs(slopes[i])))
            << clip << ", " << i;
        clipped += got[tokens + i] > 0;
      }
      EXPECT_EQ(clipped > 0, clip > 0);
    }
}

}  // namespace
}  // namespace mt
