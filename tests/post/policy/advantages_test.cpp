#include "post/policy/advantages.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mt {
namespace {

constexpr AdvantageRules kLeftOut = {.leaves_out = true, .epsilon = 1e-6},
                         kOthersToo = {.epsilon = 1e-6}, kTrl = {},
                         kMegatron = {.scale = RewardScale::population},
                         kBatch = {.scale = RewardScale::batch},
                         kCentred = {.scale = RewardScale::none};

struct Case {
  const char* name;
  AdvantageRules rules;
  std::vector<double> rewards, expected;
  std::int64_t group = 4;
};

// The digits that NeMo RL, TRL and Megatron-LM give.
TEST(Advantages, Goldens) {
  const std::vector<double> ends = {1, 0, 0, 1}, one = {1, 0, 0, 0}, same = {1, 1, 1, 1},
                            two = {1, 0}, mixed = {0.5, 1, 0, 0.1}, none(4);
  const Case cases[] = {
      {"left out", kLeftOut, ends, {1.154699, -1.154699, -1.154699, 1.154699}},
      {"left out", kLeftOut, one, {1, -.577349, -.577349, -.577349}},
      {"left out", kLeftOut, same, none},
      {"left out", kLeftOut, two, {1, -1}, 2},
      {"left out", kLeftOut, mixed, {.242091, 3.023704, -1.182751, -.799998}},
      {"all", kOthersToo, ends, {.866024, -.866024, -.866024, .866024}},
      {"all", kOthersToo, one, {1.499997, -.499999, -.499999, -.499999}},
      {"all", kOthersToo, same, none},
      {"all", kOthersToo, two, {.707106, -.707106}, 2},
      {"all", kOthersToo, mixed, {.219970, 1.319821, -.879881, -.659911}},
      {"Megatron", kMegatron, ends, {.9998, -.9998, -.9998, .9998}},
      {"Megatron", kMegatron, one, {1.731651, -.577217, -.577217, -.577217}},
      {"Megatron", kMegatron, same, none},
      {"Megatron", kMegatron, two, {.9998, -.9998}, 2},
      {"Megatron", kMegatron, mixed, {.253936, 1.523615, -1.015743, -.761807}},
      {"TRL", kTrl, ends, {.865875, -.865875, -.865875, .865875}},
      {"TRL", kTrl, one, {1.4997, -.4999, -.4999, -.4999}},
      {"TRL", kTrl, {1, 0, 1, 1}, {.707007, -.707007, 0, 0}, 2},
      {"TRL, batch",
       kBatch,
       {1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1},
       {.970820, -.970820, -.970820, .970820, 1.456230, -.485410, -.485410, -.485410, 0, 0, 0, 0}},
      {"TRL, none", kCentred, one, {.75, -.25, -.25, -.25}},
  };
  for (const Case& c : cases) {
    const std::vector<double> got = advantages(c.rewards, c.group, c.rules);
    ASSERT_EQ(got.size(), c.expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], c.expected[i], 2e-6)
          << c.name << " of " << c.rewards[0] << ", " << c.rewards[1] << ", …: " << i;
  }
}

// Token by token from the last, worked out by hand:
//   d = 0.4, 0.9 0.6 - 0.4 = 0.14, 0.9 0.4 - 0.2 = 0.16, and 0.9 0.8 of the advantage behind
TEST(Advantages, OfValues) {
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-15) << i;
  };
  expect(gae_advantages(std::vector{0.0, 0.0, 1.0}, std::vector{0.2, 0.4, 0.6},
                        {.lambda = 0.8, .gamma = 0.9}),
         {0.46816, 0.428, 0.4});
  expect(gae_advantages(std::vector{-0.1, 0.0, 2.0}, std::vector{0.5, -0.5, 1.0}, {}),
         {1.2275, 2.45, 1});
  // All of what comes, or the next token's value alone.
  expect(gae_advantages(std::vector{1.0, 2.0}, std::vector{0.25, 0.5}, {.lambda = 1}), {2.75, 1.5});
  expect(gae_advantages(std::vector{1.0, 2.0}, std::vector{0.25, 0.5}, {.lambda = 0}), {1.25, 1.5});
}

TEST(Advantages, WhatHasNoRewardCountsNowhere) {
  const double nan = NAN;
  const auto got = advantages(std::vector<double>{nan, 1, 0, nan, 3, nan, nan, nan}, 4, kTrl);
  const std::vector<double> pair = advantages(std::vector<double>{1, 0}, 2, kTrl);
  EXPECT_EQ(got, (std::vector<double>{0, pair[0], pair[1], 0, 0, 0, 0, 0}));
  EXPECT_EQ(advantages(std::vector<double>{nan, 5}, 2, kLeftOut), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace mt
