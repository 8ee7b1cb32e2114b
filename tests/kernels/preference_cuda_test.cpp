// Losses of pairs, sums of texts and losses of dynamic finetuning on a GPU are the CPU's.
#include <cmath>

#include "kernels/dft_loss.h"
#include "kernels/preference_loss.h"
#include "kernels/text_sums.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class PreferenceCuda : public testing::Test {
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

TEST_F(PreferenceCuda, LossesAndSlopes) {
  for (const std::size_t units : {1U, 31U, 33U, 700U})
    for (int kind = 0; kind <= static_cast<int>(Preference::apo_zero_unpaired); ++kind) {
      PreferenceRules rules;
      rules.losses[0].kind = static_cast<Preference>(kind);
      rules.smoothing = 0.1;
      const std::vector<float> x = numbers(2 * units, 5, -20),
                               reference = numbers(2 * units, 4, -20), tokens(2 * units, 7),
                               weight = numbers(units, 1, 2);
      std::vector<float> values(units), share(units, 1);
      for (std::size_t i = 0; i < units; ++i) values[i] = static_cast<float>(i % 2);
      if (units > 2) share[2] = 0;
      std::vector<float> loss(kPreferenceRows * units), slopes = x;
      cpu::preference_loss(PreferenceTensors<float, float>{.loss = loss.data(),
                                                           .x = slopes.data(),
                                                           .tokens = tokens.data(),
                                                           .reference = reference.data(),
                                                           .values = values.data(),
                                                           .share = share.data(),
                                                           .weight = weight.data(),
                                                           .units = std::int64_t(units)},
                           rules);
      const DeviceArray<float> d_loss(loss.size()), d_x(x), d_tokens(tokens),
          d_reference(reference), d_values(values), d_share(share), d_weight(weight);
      cuda::preference_loss(PreferenceTensors<float, float>{.loss = d_loss.data(),
                                                            .x = d_x.data(),
                                                            .tokens = d_tokens.data(),
                                                            .reference = d_reference.data(),
                                                            .values = d_values.data(),
                                                            .share = d_share.data(),
                                                            .weight = d_weight.data(),
                                                            .units = std::int64_t(units)},
                            rules, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      const auto got = d_loss.values(), got_slopes = d_x.values();
      for (std::size_t i = 0; i < loss.size(); ++i)
        ASSERT_NEAR(got[i], loss[i], 1e-5F * (1 + std::abs(loss[i]))) << kind << ", " << i;
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(got_slopes[i], slopes[i], 1e-5F * (1 + std::abs(slopes[i])))
            << kind << ", " << i;
    }
}

TEST_F(PreferenceCuda, LossesOfDynamicFinetuning) {
  for (const std::size_t count : {0U, 1U, 31U, 257U}) {
    const std::vector<float> x = numbers(count, 3, 3), weight = numbers(count, 1, 1);
    std::vector<float> loss(count), slopes = x;
    cpu::dft_loss(loss.data(), slopes.data(), weight.data(), std::int64_t(count));
    const DeviceArray<float> d_loss(count), d_x(x), d_weight(weight);
    cuda::dft_loss(d_loss.data(), d_x.data(), d_weight.data(), std::int64_t(count), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(d_loss.values()[i], loss[i], 1e-6F) << i;
      EXPECT_NEAR(d_x.values()[i], slopes[i], 1e-6F) << i;
    }
  }
}

TEST_F(PreferenceCuda, SumsOfTextsAndTheWayBack) {
  constexpr std::int64_t kRows = 3, kTokens = 1000, kTexts = 4;
  const std::vector<std::int32_t> lengths = {1, 31, 33, 700, 0, 1000, 0, 0, 257, 0, 256, 2};
  const std::vector<float> x = numbers(kRows * kTokens, 3, 2),
                           slope = numbers(kRows * kTexts, 1, 0);
  std::vector<float> mask(x.size());
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0 ? 0.0F : 1.0F;
  std::vector<float> sums(2 * slope.size()), spread(x.size());
  cpu::text_sums(sums.data(), x.data(), mask.data(), {lengths.data(), kRows, kTokens, kTexts});
  cpu::spread_over_texts(spread.data(), slope.data(), mask.data(),
                         {lengths.data(), kRows, kTokens, kTexts});
  const DeviceArray<std::int32_t> d_lengths(lengths);
  const DeviceArray<float> d_sums(sums.size()), d_x(x), d_mask(mask), d_slope(slope);
  const TextRows rows{d_lengths.data(), kRows, kTokens, kTexts};
  cuda::text_sums(d_sums.data(), d_x.data(), d_mask.data(), rows, nullptr);
  cuda::spread_over_texts(d_x.data(), d_slope.data(), d_mask.data(), rows, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  const auto got = d_sums.values();
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(got[i], sums[i], 1e-5F * (1 + std::abs(sums[i]))) << i;
  EXPECT_EQ(d_x.values(), spread);
}

}  // namespace
}  // namespace mt
