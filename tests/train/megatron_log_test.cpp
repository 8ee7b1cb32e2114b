// Megatron-LM's lines, character for character but for the time of day.
#include "train/report/megatron_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/train/step_report.h"

namespace mt {
namespace {

// What a log wrote.
std::string lines_of(const std::function<void(const Log&)>& write, Log::Settings settings = {}) {
  const Scratch scratch;
  File file = File::create(scratch.path("log"));
  settings.descriptor = file.descriptor();
  write(Log(settings));
  file.close();
  return read_file(scratch.path("log"));
}

// Every digit as 0.
std::string form_of(std::string text) {
  for (char& c : text)
    if (c >= '0' && c <= '9') c = '0';
  return text;
}

// Megatron-LM's line, character for character but for the time of day.
TEST(MegatronLog, StepLine) {
  const std::string text = lines_of([](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 1}, 500, 1);
    megatron.step(kReport);
  });
  ASSERT_GT(text.size(), 22U);
  EXPECT_EQ(form_of(text.substr(0, 22)), " [0000-00-00 00:00:00]");
  EXPECT_EQ(" [TIME]" + text.substr(22),
            " [TIME] iteration       20/     500 | consumed samples:          320 |"
            " elapsed time per iteration (ms): 500.0 | learning rate: 2.500000E-04 |"
            " global batch size:    16 | lm loss: 3.250000E+00 | loss scale: 1.0 |"
            " grad norm: 0.750 | number of skipped iterations:   0 |"
            " number of nan iterations:   0 |\n");
}

// Numbers wider than their fields push the rest to the right.
TEST(MegatronLog, WideNumbers) {
  StepReport report = kReport;
  report.iteration = 1234567890;
  report.consumed_samples = 12345678901234;
  report.global_batch_size = 1234567;
  report.seconds = 1234.5678;
  report.losses = {{"lm loss", 12345678}};
  report.grad_norm = 98765.4321;
  const std::string text = lines_of([&](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 1}, 9876543210, 1);
    megatron.step(report);
  });
  EXPECT_NE(text.find("] iteration 1234567890/9876543210 | consumed samples: 12345678901234 |"
                      " elapsed time per iteration (ms): 1234567.8 |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| global batch size: 1234567 | lm loss: 1.234568E+07 | loss scale: 1.0 |"
                      " grad norm: 98765.432 |"),
            std::string::npos)
      << text;
}

// Every field that the line can have, in Megatron-LM's order.
TEST(MegatronLog, AllFields) {
  StepReport report = kReport;
  report.skipped_samples = 12;
  report.flops = 3e12;
  report.loss_scale = 65536;
  report.num_zeros = 17;
  report.params_norm = 123.4567;
  report.next_decoupled_learning_rate = 0.125;
  const ReportOptions options{.log_interval = 1, .log_throughput = true, .peak_tflops = 20};
  const std::string text =
      lines_of([&](const Log& log) { MegatronLog(log, options, 500, 2).step(report); });
  EXPECT_EQ(" [TIME]" + text.substr(22),
            " [TIME] iteration       20/     500 | consumed samples:          320 |"
            " skipped samples:           12 | elapsed time per iteration (ms): 500.0 |"
            " throughput per GPU (TFLOP/s/GPU): 3.0 | MFU (%): 15.0 |"
            " learning rate: 2.500000E-04 | decoupled learning rate: 1.250000E-01 |"
            " global batch size:    16 | lm loss: 3.250000E+00 |"
            " loss scale: 65536.0 | grad norm: 0.750 | num zeros: 17.0 | params norm: 123.457 |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |\n");
}

// A skipped step's loss does not count, and there is no gradient norm to print after it.
TEST(MegatronLog, SkippedSteps) {
  const std::string text = lines_of([](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 4}, 8, 1);
    for (int i = 1; i <= 4; ++i) {
      StepReport report = kReport;
      report.iteration = i;
      report.skipped = i % 2 == 0;
      report.losses = {{"lm loss", i == 2 ? std::nan("") : i}};
      megatron.step(report);
    }
  });
  EXPECT_TRUE(
      text.ends_with(" lm loss: 2.000000E+00 | loss scale: 1.0 |"
                     " number of skipped iterations:   2 |"
                     " number of nan iterations:   1 |\n"))
      << text;
}

// A line every `interval` steps, with the mean of loss and time since the last one.
TEST(MegatronLog, MeansOverTheInterval) {
  const std::string text = lines_of([](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 3}, 6, 1);
    for (int i = 1; i <= 5; ++i) {
      StepReport report = kReport;
      report.iteration = i;
      report.losses = {{"lm loss", static_cast<double>(i)}};
      report.seconds = 0.001 * i;
      megatron.step(report);
    }
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("iteration        3/       6 |"), std::string::npos) << text;
  EXPECT_NE(text.find("(ms): 2.0 |"), std::string::npos) << text;
  EXPECT_NE(text.find("lm loss: 2.000000E+00"), std::string::npos) << text;
}

TEST(MegatronLog, Validation) {
  const auto text_of = [](const char* where, double loss, const char* set = "") {
    return lines_of([&](const Log& log) {
      MegatronLog(log, {}, 9, 1)
          .evaluation({.set = set, .where = where, .iteration = 7, .losses = {{"lm loss", loss}}});
    });
  };
  const std::string during =
      " validation loss at iteration 7 | lm loss value: 2.000000E+00 | lm loss PPL: "
      "7.389056E+00 | ";
  const std::string dashes(during.size() + 1, '-');
  EXPECT_EQ(text_of("", 2), dashes + "\n" + during + "\n" + dashes + "\n");
  EXPECT_NE(text_of("", 2, "wiki").find("\n validation-wiki loss at iteration 7 | lm loss value: "),
            std::string::npos);
  EXPECT_NE(text_of(" on validation set", 2)
                .find("\n validation loss at iteration 7 on validation set | lm loss value: "),
            std::string::npos);
  // The exponent is at most 20.
  EXPECT_NE(text_of(" on test set", 1000)
                .find("\n validation loss at iteration 7 on test set | lm loss value: "
                      "1.000000E+03 | lm loss PPL: 4.851652E+08 | \n"),
            std::string::npos);
}

// An objective of several terms has a field each, by their names.
TEST(MegatronLog, SeveralLosses) {
  const std::string text = lines_of([](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 2}, 6, 1);
    for (int i = 1; i <= 2; ++i) {
      StepReport report = kReport;
      report.iteration = i;
      report.losses = {{"lm loss", 2.0 * i}, {"sop loss", 0.5 * i}};
      megatron.step(report);
    }
    megatron.evaluation({.iteration = 2, .losses = {{"lm loss", 2}, {"sop loss", 1}}});
  });
  EXPECT_NE(text.find("| lm loss: 3.000000E+00 | sop loss: 7.500000E-01 | loss scale:"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n validation loss at iteration 2 | lm loss value: 2.000000E+00 | lm loss "
                      "PPL: 7.389056E+00 | sop loss value: 1.000000E+00 | sop loss PPL: "
                      "2.718282E+00 | \n"),
            std::string::npos)
      << text;
}

TEST(MegatronLog, QuietAndOtherRanksSayNothing) {
  const auto talk = [](const Log& log) {
    MegatronLog megatron(log, {.log_interval = 1}, 500, 1);
    megatron.step(kReport);
    megatron.evaluation({.iteration = 20, .losses = {{"lm loss", 1}}});
  };
  EXPECT_EQ(lines_of(talk, {.level = Log::Level::quiet}), "");
  EXPECT_EQ(lines_of([&](const Log& log) { talk(log.for_rank(1)); }), "");
}

}  // namespace
}  // namespace mt
