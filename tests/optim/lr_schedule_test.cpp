// Learning rates against the golden table of Megatron's rules: lr 3e-4, min-lr 3e-5, batches of 32,
// a decay of 100 steps after a warm-up of 10.
#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace mt {
namespace {

LrSchedule schedule_of(const std::string& style) {
  LrSchedule schedule;
  schedule.lr = 3e-4;
  schedule.min_lr = 3e-5;
  schedule.decay_style = style;
  schedule.warmup_iters = 10;
  schedule.complete(100, 32);
  return schedule;
}

std::string printed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6E", value);
  return text;
}

struct Line {
  std::int64_t step;
  const char *linear, *cosine, *constant;
};

TEST(LrSchedule, GoldenTable) {
  const Line lines[] = {
      {0, "0.000000E+00", "0.000000E+00", "0.000000E+00"},
      {1, "3.000000E-05", "3.000000E-05", "3.000000E-05"},
      {5, "1.500000E-04", "1.500000E-04", "1.500000E-04"},
      {10, "3.000000E-04", "3.000000E-04", "3.000000E-04"},
      {11, "2.970000E-04", "2.999178E-04", "3.000000E-04"},
      {50, "1.800000E-04", "1.884425E-04", "3.000000E-04"},
      {80, "9.000000E-05", "6.158400E-05", "3.000000E-04"},
      {90, "6.000000E-05", "3.814150E-05", "3.000000E-04"},
      {95, "4.500000E-05", "3.205095E-05", "3.000000E-04"},
      {100, "3.000000E-05", "3.000000E-05", "3.000000E-04"},
      {101, "3.000000E-05", "3.000000E-05", "3.000000E-04"},
  };
  const LrSchedule linear = schedule_of("linear"), cosine = schedule_of("cosine"),
                   constant = schedule_of("constant");
  for (const Line& line : lines) {
    EXPECT_EQ(printed(linear.at(line.step * 32)), line.linear) << line.step;
    EXPECT_EQ(printed(cosine.at(line.step * 32)), line.cosine) << line.step;
    EXPECT_EQ(printed(constant.at(line.step * 32)), line.constant) << line.step;
  }
}

TEST(LrSchedule, WarmsUpFromItsInitialRate) {
  LrSchedule schedule = schedule_of("linear");
  schedule.warmup_init = 1e-4;
  EXPECT_DOUBLE_EQ(schedule.at(0), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.at(160), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.at(320), 3e-4);
}

TEST(LrSchedule, WithoutWarmUpStartsAtThePeak) {
  LrSchedule schedule = schedule_of("cosine");
  schedule.warmup_iters = 0;
  schedule.complete(100, 32);
  EXPECT_DOUBLE_EQ(schedule.at(0), 3e-4);
  EXPECT_DOUBLE_EQ(schedule.at(1600), 1.65e-4);
}

TEST(LrSchedule, WarmUpAsAFractionOfTheDecay) {
  LrSchedule schedule = schedule_of("linear");
  schedule.warmup_iters = 0;
  schedule.warmup_fraction = 0.015;
  schedule.decay_iters = 50;
  schedule.complete(100, 32);
  EXPECT_DOUBLE_EQ(schedule.decay_samples, 1600);
  EXPECT_DOUBLE_EQ(schedule.warmup_samples, 24);  // not whole steps
  EXPECT_DOUBLE_EQ(schedule.at(12), 1.5e-4);
  EXPECT_DOUBLE_EQ(schedule.at(1600), 3e-5);
}

// The line of the error that completing `schedule` ends with.
std::string complaint(const LrSchedule& schedule, Exit code) {
  LrSchedule copy = schedule;
  try {
    copy.complete(100, 32);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return {};
}

TEST(LrSchedule, RefusesWhatDoesNotFitTogether) {
  LrSchedule schedule = schedule_of("linear");
  schedule.min_lr = 1;
  EXPECT_EQ(complaint(schedule, Exit::bad_config), "--min-lr 1: larger than --lr 0.0003");
  schedule = schedule_of("linear");
  schedule.warmup_init = 0.5;
  EXPECT_EQ(complaint(schedule, Exit::bad_config), "--lr-warmup-init 0.5: larger than --lr 0.0003");
  schedule = schedule_of("linear");
  schedule.warmup_fraction = 0.1;
  EXPECT_EQ(complaint(schedule, Exit::usage),
            "--lr-warmup-fraction and --lr-warmup-iters exclude each other");
  schedule = schedule_of("linear");
  schedule.warmup_iters = 100;
  EXPECT_EQ(complaint(schedule, Exit::bad_config),
            "--lr-warmup-iters: the warm-up of 3200 samples is not shorter than the decay of 3200");
  schedule.decay_style = "constant";
  EXPECT_EQ(complaint(schedule, Exit::bad_config), "");
}

}  // namespace
}  // namespace mt
