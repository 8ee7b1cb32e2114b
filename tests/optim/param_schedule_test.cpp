// Learning rates and weight decay against the golden tables of Megatron's rules: lr 3e-4, min-lr
// 3e-5, batches of 32, a decay of 100 steps after a warm-up of 10, WSD's end of 20 steps.
#include "optim/param_schedule.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

namespace mt {
namespace {

constexpr ParamSchedule::RunLength kHundredSteps{.train_iters = 100, .global_batch_size = 32};

ParamSchedule options_of(const std::string& style, const std::string& wsd_style = "exponential") {
  ParamSchedule schedule;
  schedule.lr = 3e-4;
  schedule.min_lr = 3e-5;
  schedule.decay_style = style;
  schedule.wsd_decay_style = wsd_style;
  schedule.warmup_iters = 10;
  schedule.wsd_decay_iters = 20;
  return schedule;
}

ParamSchedule schedule_of(const std::string& style, const std::string& wsd_style = "exponential") {
  ParamSchedule schedule = options_of(style, wsd_style);
  schedule.complete(kHundredSteps);
  return schedule;
}

double rate(const ParamSchedule& schedule, std::int64_t samples) {
  return schedule.at(samples).learning_rate;
}

std::string printed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6E", value);
  return text;
}

struct Column {
  const char *style, *wsd_style;
  const char* at[11];  // after so many steps:
};
constexpr std::int64_t kSteps[] = {0, 1, 5, 10, 11, 50, 80, 90, 95, 100, 101};

#define WARM_UP "0.000000E+00", "3.000000E-05", "1.500000E-04", "3.000000E-04"
#define STABLE "3.000000E-04", "3.000000E-04", "3.000000E-04"

TEST(ParamSchedule, GoldenTable) {
  const Column columns[] = {
      {"linear",
       "",
       {WARM_UP, "2.970000E-04", "1.800000E-04", "9.000000E-05", "6.000000E-05", "4.500000E-05",
        "3.000000E-05", "3.000000E-05"}},
      {"cosine",
       "",
       {WARM_UP, "2.999178E-04", "1.884425E-04", "6.158400E-05", "3.814150E-05", "3.205095E-05",
        "3.000000E-05", "3.000000E-05"}},
      {"inverse-square-root",
       "",
       {WARM_UP, "2.860388E-04", "1.341641E-04", "1.060660E-04", "1.000000E-04", "9.733285E-05",
        "9.486833E-05", "3.000000E-05"}},
      {"WSD",
       "exponential",
       {WARM_UP, STABLE, "1.418377E-04", "8.108592E-05", "3.000000E-05", "3.000000E-05"}},
      {"WSD",
       "linear",
       {WARM_UP, STABLE, "1.650000E-04", "9.750000E-05", "3.000000E-05", "3.000000E-05"}},
      {"WSD",
       "cosine",
       {WARM_UP, STABLE, "1.650000E-04", "6.954058E-05", "3.000000E-05", "3.000000E-05"}},
      {"WSD",
       "minus_sqrt",
       {WARM_UP, STABLE, "1.090812E-04", "6.617314E-05", "3.000000E-05", "3.000000E-05"}},
      {"constant",
       "",
       {WARM_UP, STABLE, "3.000000E-04", "3.000000E-04", "3.000000E-04", "3.000000E-04"}},
  };
  for (const Column& column : columns) {
    const ParamSchedule schedule = schedule_of(column.style, column.wsd_style);
    for (std::size_t i = 0; i < std::size(kSteps); ++i)
      EXPECT_EQ(printed(rate(schedule, kSteps[i] * 32)), column.at[i])
          << column.style << " " << column.wsd_style << " after " << kSteps[i];
  }
}

TEST(ParamSchedule, GoldenWeightDecay) {
  const std::int64_t steps[] = {0, 25, 50, 75, 100, 101};
  const double linear[] = {0, 0.025, 0.05, 0.075, 0.1, 0.1};
  const double cosine[] = {0, 0.0146447, 0.05, 0.0853553, 0.1, 0.1};
  for (const char* style : {"linear", "cosine"}) {
    ParamSchedule schedule = options_of("linear");
    schedule.start_weight_decay = 0;
    schedule.end_weight_decay = 0.1;
    schedule.weight_decay_incr_style = style;
    schedule.complete(kHundredSteps);
    for (std::size_t i = 0; i < std::size(steps); ++i)
      EXPECT_NEAR(schedule.at(steps[i] * 32).weight_decay,
                  style == std::string("linear") ? linear[i] : cosine[i], 5e-8)
          << style << steps[i];
  }
  EXPECT_EQ(schedule_of("linear").at(1600).weight_decay, 0.01);
}

// The same schedule by samples.
TEST(ParamSchedule, LengthsInSamples) {
  ParamSchedule by_samples = options_of("WSD");
  by_samples.warmup_iters = 0;
  by_samples.wsd_decay_iters.reset();
  by_samples.warmup_samples = 320;
  by_samples.wsd_decay_samples = 640;
  by_samples.decay_samples = 3200;
  by_samples.complete({.train_samples = 5000});
  const ParamSchedule by_steps = schedule_of("WSD");
  for (std::int64_t n = 0; n < 3300; n += 10) EXPECT_EQ(rate(by_samples, n), rate(by_steps, n));
  EXPECT_EQ(by_samples.values().weight_decay_span, 5000);
}

TEST(ParamSchedule, DecoupledRates) {
  ParamSchedule schedule = options_of("linear");
  schedule.decoupled_lr = 3e-3;
  schedule.complete(kHundredSteps);
  EXPECT_DOUBLE_EQ(schedule.at(160).decoupled_learning_rate, 1.5e-3);
  EXPECT_DOUBLE_EQ(schedule.at(3200).decoupled_learning_rate, 3e-5);
  schedule.decoupled_min_lr = 1e-3;
  schedule.complete(kHundredSteps);
  EXPECT_DOUBLE_EQ(schedule.at(3200).decoupled_learning_rate, 1e-3);
  EXPECT_DOUBLE_EQ(schedule.at(3200).learning_rate, 3e-5);
  const ParamSchedule without = schedule_of("linear");
  EXPECT_EQ(without.at(1000).decoupled_learning_rate, without.at(1000).learning_rate);
}

// The line of the error that `body` ends with.
template <class Body>
std::string error_of(Exit code, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return {};
}

TEST(ParamSchedule, ACheckpointsValuesMustBeEqual) {
  ParamSchedule schedule = schedule_of("linear");
  ParamSchedule::Values stored = schedule.values();
  schedule.merge(stored, "ckpt");
  stored.decay = 6400;
  EXPECT_EQ(
      error_of(Exit::bad_config, [&] { schedule.merge(stored, "ckpt"); }),
      "ckpt: the learning rate's decay in samples is 6400 in the checkpoint and 3200 here; "
      "--override-opt_param-scheduler takes this one, "
      "--use-checkpoint-opt_param-scheduler that one; --finetune begins anew from its weights");
  schedule.override_checkpoint = true;
  schedule.merge(stored, "ckpt");
  EXPECT_EQ(schedule.values().decay, 3200);
  schedule.override_checkpoint = false;
  schedule.use_checkpoint = true;
  stored.decay_style = "cosine";
  stored.lr.max = 1e-3;
  schedule.merge(stored, "ckpt");
  EXPECT_EQ(schedule.values().decay, 6400);
  EXPECT_DOUBLE_EQ(rate(schedule, 320), 1e-3);
  EXPECT_DOUBLE_EQ(rate(schedule, (320 + 6400) / 2), (1e-3 + 3e-5) / 2);
}

TEST(ParamSchedule, EveryValueOfACheckpointCounts) {
  using Values = ParamSchedule::Values;
  const std::function<void(Values&)> changes[] = {
      [](Values& v) { v.lr.max = 1; },
      [](Values& v) { v.lr.min = 0; },
      [](Values& v) { v.decoupled->max = 1; },
      [](Values& v) { v.decoupled->min = 0; },
      [](Values& v) { v.warmup = 1; },
      [](Values& v) { v.decay = 1; },
      [](Values& v) { v.decay_style = "cosine"; },
      [](Values& v) { v.start_weight_decay = 1; },
      [](Values& v) { v.end_weight_decay = 1; },
      [](Values& v) { v.weight_decay_span = 1; },
      [](Values& v) { v.weight_decay_style = "cosine"; },
  };
  ParamSchedule schedule = options_of("linear");
  schedule.decoupled_lr = 1e-2;
  schedule.complete(kHundredSteps);
  for (const auto& change : changes) {
    Values stored = schedule.values();
    change(stored);
    EXPECT_NE(error_of(Exit::bad_config, [&] { schedule.merge(stored, "ckpt"); }), "");
  }
}

TEST(ParamSchedule, WarmsUpFromItsInitialRate) {
  ParamSchedule schedule = schedule_of("linear");
  schedule.warmup_init = 1e-4;
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 1e-4);
  EXPECT_DOUBLE_EQ(rate(schedule, 160), 2e-4);
  EXPECT_DOUBLE_EQ(rate(schedule, 320), 3e-4);
}

TEST(ParamSchedule, WithoutWarmUpStartsAtThePeak) {
  ParamSchedule schedule = schedule_of("cosine");
  schedule.warmup_iters = 0;
  schedule.complete(kHundredSteps);
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 3e-4);
  EXPECT_DOUBLE_EQ(rate(schedule, 1600), 1.65e-4);
}

TEST(ParamSchedule, WarmUpAsAFractionOfTheDecay) {
  ParamSchedule schedule = schedule_of("linear");
  schedule.warmup_iters = 0;
  schedule.warmup_fraction = 0.015;
  schedule.decay_iters = 50;
  schedule.complete(kHundredSteps);
  EXPECT_DOUBLE_EQ(schedule.values().decay, 1600);
  EXPECT_DOUBLE_EQ(schedule.values().warmup, 24);  // not whole steps
  EXPECT_DOUBLE_EQ(rate(schedule, 12), 1.5e-4);
  EXPECT_DOUBLE_EQ(rate(schedule, 1600), 3e-5);
}

std::string complaint(const ParamSchedule& schedule, Exit code) {
  ParamSchedule copy = schedule;
  return error_of(code, [&] { copy.complete(kHundredSteps); });
}

TEST(ParamSchedule, RefusesWhatDoesNotFitTogether) {
  ParamSchedule schedule = schedule_of("linear");
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
  schedule = schedule_of("WSD");
  schedule.wsd_decay_iters.reset();
  EXPECT_EQ(complaint(schedule, Exit::usage), "--lr-decay-style WSD: needs --lr-wsd-decay-iters");
  schedule = schedule_of("linear");
  schedule.warmup_samples = 5;
  EXPECT_EQ(complaint(schedule, Exit::usage),
            "--lr-decay-samples, --lr-wsd-decay-samples and --lr-warmup-samples need "
            "--train-samples");
  schedule = schedule_of("linear");
  schedule.decoupled_min_lr = 1e-5;
  EXPECT_EQ(complaint(schedule, Exit::usage), "--decoupled-min-lr: needs --decoupled-lr");
  schedule.decoupled_lr = 1e-6;
  EXPECT_EQ(complaint(schedule, Exit::bad_config),
            "--decoupled-min-lr 1e-05: larger than --decoupled-lr 1e-06");
  schedule = schedule_of("linear");
  schedule.end_weight_decay = 0.1;
  EXPECT_EQ(complaint(schedule, Exit::usage),
            "--start-weight-decay and --end-weight-decay need a --weight-decay-incr-style other "
            "than constant");
  schedule.weight_decay_incr_style = "cosine";
  EXPECT_EQ(complaint(schedule, Exit::usage),
            "--weight-decay-incr-style cosine: needs --start-weight-decay and --end-weight-decay");
  schedule.start_weight_decay = 0.2;
  EXPECT_EQ(complaint(schedule, Exit::bad_config),
            "--end-weight-decay 0.1: less than --start-weight-decay 0.2");
  schedule = schedule_of("linear");
  schedule.override_checkpoint = schedule.use_checkpoint = true;
  EXPECT_EQ(complaint(schedule, Exit::usage),
            "--override-opt_param-scheduler and --use-checkpoint-opt_param-scheduler exclude each "
            "other");
}

}  // namespace
}  // namespace mt
