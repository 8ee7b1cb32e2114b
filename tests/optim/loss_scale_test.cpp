// The loss scale after each step, against the golden sequence of Megatron's rules.
#include "optim/loss_scale.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

struct LossScale {
  explicit LossScale(const LossScaleOptions& options)
      : rule(options.rule()), state(options.start()) {}
  void update(bool overflow) { go_on(state, rule, overflow); }
  double value() const { return state.scale; }
  LossScaleRule rule;
  LossScaleState state;
};

TEST(LossScale, GoldenSequence) {
  LossScale scale({.loss_scale = {}, .initial_loss_scale = 65536, .window = 4, .hysteresis = 2});
  const int overflows[] = {0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0};
  const double after[] = {65536, 65536, 65536, 32768, 16384, 16384, 16384,
                          16384, 32768, 32768, 32768, 32768, 32768, 65536};
  for (std::size_t i = 0; i < std::size(after); ++i) {
    scale.update(overflows[i] == 1);
    EXPECT_EQ(scale.value(), after[i]) << i;
  }
}

TEST(LossScale, GoesOnFromItsState) {
  const LossScaleOptions options{.loss_scale = {},
                                 .initial_loss_scale = 0.3,
                                 .min_loss_scale = 0.1,
                                 .window = 3,
                                 .hysteresis = 2};
  LossScale whole(options), resumed(options);
  for (int i = 0; i < 30; ++i) {
    whole.update(i % 7 < 2);
    LossScale next(options);
    next.state = resumed.state;
    next.state.scale = static_cast<float>(next.state.scale);  // by a checkpoint
    next.update(i % 7 < 2);
    resumed = next;
    EXPECT_EQ(resumed.value(), whole.value());
  }
}

TEST(LossScale, NotBelowItsLeast) {
  LossScale scale({.loss_scale = {},
                   .initial_loss_scale = 4,
                   .min_loss_scale = 1.5,
                   .window = 1,
                   .hysteresis = 1});
  scale.update(true);
  EXPECT_EQ(scale.value(), 2);
  scale.update(true);
  EXPECT_EQ(scale.value(), 1.5);
}

// A checkpoint keeps it in fp32.
TEST(LossScale, NotAboveWhatFp32Holds) {
  LossScale scale({.loss_scale = {}, .initial_loss_scale = 0x1p126, .window = 1});
  for (int i = 0; i < 5; ++i) {
    scale.update(false);
    EXPECT_EQ(scale.value(), 0x1p127);
  }
  EXPECT_EQ(scale.state.growth, 0);
  scale.update(true);
  scale.update(true);
  EXPECT_EQ(scale.value(), 0x1p126);
}

TEST(LossScale, AConstantStays) {
  LossScale scale({.loss_scale = 128, .initial_loss_scale = {}});
  for (int i = 0; i < 3000; ++i) scale.update(i % 2 == 0);
  EXPECT_EQ(scale.value(), 128);
  EXPECT_EQ(LossScale({}).value(), 1);
}

TEST(LossScale, WhatDoesNotFitTogether) {
  LossScaleOptions both{.loss_scale = 2, .initial_loss_scale = 2};
  EXPECT_THROW(both.complete(), Error);
  LossScaleOptions low{.loss_scale = {}, .initial_loss_scale = 2, .min_loss_scale = 4};
  EXPECT_THROW(low.complete(), Error);
}

}  // namespace
}  // namespace mt
