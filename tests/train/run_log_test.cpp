#include "train/run_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/base/scratch.h"

namespace mt {
namespace {

constexpr StepReport kReport{.iteration = 20,
                             .consumed_samples = 320,
                             .global_batch_size = 16,
                             .tokens = 1024,
                             .loss = 3.25,
                             .grad_norm = 0.75,
                             .learning_rate = 0.0005,
                             .next_learning_rate = 0.00025,
                             .seconds = 0.5};

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
    MegatronLog megatron(log, 1, 500);
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
  report.loss = 12345678;
  report.grad_norm = 98765.4321;
  report.num_zeros = 17;
  const std::string text = lines_of([&](const Log& log) {
    MegatronLog megatron(log, 1, 9876543210);
    megatron.step(report);
  });
  EXPECT_NE(text.find("] iteration 1234567890/9876543210 | consumed samples: 12345678901234 |"
                      " elapsed time per iteration (ms): 1234567.8 |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| global batch size: 1234567 | lm loss: 1.234568E+07 | loss scale: 1.0 |"
                      " grad norm: 98765.432 | num zeros: 17.0 | number of skipped"),
            std::string::npos)
      << text;
}

// A line every `interval` steps, with the mean of loss and time since the last one.
TEST(MegatronLog, MeansOverTheInterval) {
  const std::string text = lines_of([](const Log& log) {
    MegatronLog megatron(log, 3, 6);
    for (int i = 1; i <= 5; ++i) {
      StepReport report = kReport;
      report.iteration = i;
      report.loss = i;
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
  const auto text_of = [](const char* where, double loss) {
    return lines_of([&](const Log& log) { MegatronLog(log, 1, 9).evaluation(7, where, loss); });
  };
  const std::string during =
      " validation loss at iteration 7 | lm loss value: 2.000000E+00 | lm loss PPL: "
      "7.389056E+00 | ";
  const std::string dashes(during.size() + 1, '-');
  EXPECT_EQ(text_of("", 2), dashes + "\n" + during + "\n" + dashes + "\n");
  EXPECT_NE(text_of(" on validation set", 2)
                .find("\n validation loss at iteration 7 on validation set | lm loss value: "),
            std::string::npos);
  // The exponent is at most 20.
  EXPECT_NE(text_of(" on test set", 1000)
                .find("\n validation loss at iteration 7 on test set | lm loss value: "
                      "1.000000E+03 | lm loss PPL: 4.851652E+08 | \n"),
            std::string::npos);
}

TEST(MegatronLog, QuietAndOtherRanksSayNothing) {
  const auto talk = [](const Log& log) {
    MegatronLog megatron(log, 1, 500);
    megatron.step(kReport);
    megatron.evaluation(20, "", 1);
  };
  EXPECT_EQ(lines_of(talk, {.level = Log::Level::quiet}), "");
  EXPECT_EQ(lines_of([&](const Log& log) { talk(log.for_rank(1)); }), "");
}

// Keys, their order and the form of numbers are an interface: schema mt-pretrain/1.
TEST(RunLog, StepLine) {
  const Scratch scratch;
  RunLog(scratch.path("run.jsonl"), false).step(kReport);
  EXPECT_EQ(read_file(scratch.path("run.jsonl")),
            R"({"schema":"mt-pretrain/1","event":"step","iteration":20,"consumed_samples":320,)"
            R"("loss":3.25,"lr":5e-04,"grad_norm":0.75,"tokens_per_second":2048,)"
            R"("step_seconds":0.5})"
            "\n");
}

// A resumed run goes on in the same file, which is whole after every line.
TEST(RunLog, Appends) {
  const Scratch scratch;
  const std::string path = scratch.path("new/run.jsonl");
  for (const char* name : {"start", "end"}) {
    RunLog log(path, false);
    JsonWriter event = RunLog::event(name);
    log.write(event);
    EXPECT_TRUE(read_file(path).ends_with(concat("\"event\":\"", name, "\"}\n")));
  }
  EXPECT_EQ(read_file(path),
            "{\"schema\":\"mt-pretrain/1\",\"event\":\"start\"}\n"
            "{\"schema\":\"mt-pretrain/1\",\"event\":\"end\"}\n");
}

TEST(RunLog, EndsALineThatWasCut) {
  const Scratch scratch;
  const std::string path = scratch.path("run.jsonl");
  write_file_atomically(path, "{}\n{\"schema\":\"mt-pre", false);
  RunLog log(path, false);
  EXPECT_EQ(read_file(path).back(), 'e');  // nothing before the first line
  for (const char* name : {"start", "end"}) {
    JsonWriter event = RunLog::event(name);
    log.write(event);
  }
  EXPECT_EQ(read_file(path),
            "{}\n{\"schema\":\"mt-pre\n"
            "{\"schema\":\"mt-pretrain/1\",\"event\":\"start\"}\n"
            "{\"schema\":\"mt-pretrain/1\",\"event\":\"end\"}\n");
}

TEST(RunLog, ThatCannotBeOpened) {
  const Scratch scratch;
  EXPECT_EQ(error_of([&] { RunLog(scratch.path("."), false).step(kReport); }),
            concat("73 ", scratch.path("."), ": cannot open: Is a directory"));
  EXPECT_EQ(error_of([&] { RunLog("/dev/full", false).step(kReport); }),
            "74 /dev/full: cannot write: No space left on device");
}

}  // namespace
}  // namespace mt
