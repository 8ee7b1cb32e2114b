#include "train/report/run_log.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/train/step_report.h"

namespace mt {
namespace {

// Keys, their order and the form of numbers are an interface: schema mt-pretrain/1.
TEST(RunLog, StepLine) {
  const Scratch scratch;
  RunLog({.run_log = scratch.path("run.jsonl")}, 1).step(kReport);
  EXPECT_EQ(read_file(scratch.path("run.jsonl")),
            R"({"schema":"mt-pretrain/1","event":"step","iteration":20,"consumed_samples":320,)"
            R"("loss":3.25,"lr":5e-04,"grad_norm":0.75,"tokens_per_second":2048,)"
            R"("step_seconds":0.5})"
            "\n");
}

// What there is only sometimes to say.
TEST(RunLog, FurtherMembers) {
  const Scratch scratch;
  StepReport report = kReport;
  report.flops = 4e12;
  report.skipped = true;
  report.skipped_samples = 3;
  report.num_zeros = 7;
  report.params_norm = 1.5;
  RunLog({.run_log = scratch.path("run.jsonl"), .log_throughput = true, .peak_tflops = 16}, 2)
      .step(report);
  EXPECT_TRUE(read_file(scratch.path("run.jsonl"))
                  .ends_with(R"("grad_norm":0.75,"num_zeros":7,"tokens_per_second":2048,)"
                             R"("step_seconds":0.5,"skipped":true,"skipped_samples":3,)"
                             R"("params_norm":1.5,"tflops":4,"mfu":0.25})"
                             "\n"));
}

// Of several losses the first is "loss", and the others have their names.
TEST(RunLog, SeveralLosses) {
  const Scratch scratch;
  StepReport report = kReport;
  report.losses.push_back({"sop loss", 0.5});
  RunLog log({.run_log = scratch.path("run.jsonl")}, 1);
  log.step(report);
  log.evaluation({.split = "valid", .iteration = 20, .losses = report.losses});
  const std::string text = read_file(scratch.path("run.jsonl"));
  EXPECT_NE(text.find(R"("loss":3.25,"sop_loss":0.5,"lr":5e-04,)"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(R"("iteration":20,"loss":3.25,"sop_loss":0.5})"
                             "\n"))
      << text;
}

// A resumed run goes on in the same file, which is whole after every line.
TEST(RunLog, Appends) {
  const Scratch scratch;
  const std::string path = scratch.path("new/run.jsonl");
  for (const char* name : {"start", "end"}) {
    RunLog log({.run_log = path}, 1);
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
  RunLog log({.run_log = path}, 1);
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
  EXPECT_EQ(error_of([&] { RunLog({.run_log = scratch.path(".")}, 1).step(kReport); }),
            concat("73 ", scratch.path("."), ": cannot create: Is a directory"));
  EXPECT_EQ(error_of([&] { RunLog({.run_log = "/dev/full"}, 1).step(kReport); }),
            "74 /dev/full: cannot write: No space left on device");
}

}  // namespace
}  // namespace mt
