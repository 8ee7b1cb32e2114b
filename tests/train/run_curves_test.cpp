#include "train/report/run_curves.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "train/report/plot_axis.h"

namespace mt {
namespace {

std::string event(const std::string& rest) { return R"({"schema":"mt-pretrain/1",)" + rest + "}"; }

TEST(RunCurves, TakesStepsAndValidation) {
  RunCurves run("log", {"loss", "grad_norm"});
  run.take(event(R"("event":"start","iteration":0)"));
  run.take(event(R"("event":"step","iteration":1,"loss":3.5,"grad_norm":1)"));
  run.take(event(R"("event":"step","iteration":2,"loss":3,"grad_norm":null)"));
  run.take(event(R"("event":"eval","split":"valid","iteration":2,"loss":3.25)"));
  run.take(event(R"("event":"eval","split":"test","iteration":2,"loss":9)"));
  run.take("");
  run.take(event(R"("event":"step","iteration":2,"loss":2.5,"grad_norm":4)"));  // resumed from 1
  EXPECT_EQ(run.of("loss").steps, (std::map<std::int64_t, double>{{1, 3.5}, {2, 2.5}}));
  EXPECT_EQ(run.of("loss").validation, (std::map<std::int64_t, double>{{2, 3.25}}));
  EXPECT_EQ(run.of("grad_norm").steps, (std::map<std::int64_t, double>{{1, 1}, {2, 4}}));
  EXPECT_TRUE(run.of("grad_norm").validation.empty());
}

TEST(RunCurves, OneOfAListIsAMetric) {
  RunCurves run("log", {"loads.1", "loads.2", "loads.x", "a.1"});
  run.take(event(R"("event":"step","iteration":1,"loads":[2,3],"a.1":7)"));
  EXPECT_EQ(run.of("loads.1").steps, (std::map<std::int64_t, double>{{1, 3}}));
  EXPECT_TRUE(run.of("loads.2").steps.empty());
  EXPECT_TRUE(run.of("loads.x").steps.empty());
  EXPECT_EQ(run.of("a.1").steps, (std::map<std::int64_t, double>{{1, 7}}));
}

TEST(RunCurves, WhatIsNoRunLogIsNamed) {
  const auto error = [](const std::string& line) {
    return error_of([&] {
      RunCurves run("log", {"loss"});
      run.take("");
      run.take(line);
    });
  };
  EXPECT_EQ(error("{\"schema\":\"mt-pre"), "65 log:2: not a JSON object");
  EXPECT_EQ(error("[1]"), "65 log:2: not a JSON object");
  EXPECT_EQ(error(R"({"schema":"mt-eval/1","event":"step"})"),
            "65 log:2: not an event of schema mt-pretrain/1");
  EXPECT_EQ(error(event(R"("event":"step","loss":1)")), "65 log:2: no iteration");
  EXPECT_EQ(error(event(R"("event":"step","iteration":1,"loss":"x")")),
            "65 log:2: loss is not a number");
}

TEST(PlotAxis, Ticks) {
  EXPECT_EQ(ticks({0, 10}, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks({1, 4}, 3), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(ticks({3, 3}, 5), (std::vector<double>{3}));
  EXPECT_EQ(ticks({-1.3, 1.3}, 4), (std::vector<double>{-1, 0, 1}));
  for (const double low : {-1e9, 0.0, 1e-12})
    for (const double width : {1e-9, 0.37, 12345.0}) {
      const auto list = ticks({low, low + width}, 6);
      EXPECT_GE(list.size(), 1U);
      EXPECT_LE(list.size(), 8U);
    }
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(190000), "190k");
  EXPECT_EQ(tick_text(1234567), "1.235M");
  EXPECT_EQ(tick_text(1.5e-5), "1.5e-05");
}

}  // namespace
}  // namespace mt
