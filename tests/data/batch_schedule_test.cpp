// Sizes of steps, against values computed in Python from Megatron-LM's rules.
#include "data/samples/batch_schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/base/scratch.h"

namespace mt {
namespace {

struct Change {
  std::int64_t iteration = 0, consumed = 0, size = 0;  // the iteration, from 1, takes that size
  bool operator==(const Change&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Change& c) {
  return out << "(" << c.iteration << "," << c.consumed << "," << c.size << ")";
}

// The first `iterations` steps, as the iterations where the size changes.
std::vector<Change> changes(const BatchSchedule& schedule, std::int64_t iterations) {
  std::vector<Change> list;
  std::int64_t consumed = 0;
  for (std::int64_t i = 1; i <= iterations; ++i) {
    const std::int64_t size = schedule.at(consumed);
    if (list.empty() || list.back().size != size) list.push_back({i, consumed, size});
    consumed += size;
  }
  return list;
}

TEST(BatchSchedule, Constant) {
  const BatchSchedule schedule(16);
  EXPECT_EQ(changes(schedule, 100), (std::vector<Change>{{1, 0, 16}}));
  EXPECT_EQ(schedule.iterations(1000), 62);
  EXPECT_EQ(schedule.iterations(15), 0);
  EXPECT_FALSE(schedule.changes());
}

// spec/training.md 11.2.
TEST(BatchSchedule, RampUp) {
  const BatchSchedule small(16, {4, 4, 64});
  EXPECT_EQ(changes(small, 60),
            (std::vector<Change>{{1, 0, 4}, {7, 24, 8}, {10, 48, 12}, {12, 72, 16}}));
  EXPECT_EQ(small.iterations(1000), 69);
  EXPECT_EQ(
      changes({48, {16, 8, 300}}, 60),
      (std::vector<Change>{{1, 0, 16}, {6, 80, 24}, {9, 152, 32}, {12, 248, 40}, {14, 328, 48}}));

  const BatchSchedule large(1536, {32, 32, 244140});
  const std::vector<Change> all = changes(large, 2000);
  ASSERT_EQ(all.size(), 48U);
  EXPECT_EQ(
      std::vector<Change>(all.begin(), all.begin() + 5),
      (std::vector<Change>{
          {1, 0, 32}, {164, 5216, 64}, {245, 10400, 96}, {299, 15584, 128}, {340, 20832, 160}}));
  EXPECT_EQ(std::vector<Change>(all.end() - 2, all.end()),
            (std::vector<Change>{{720, 239712, 1504}, {723, 244224, 1536}}));
  EXPECT_EQ(large.iterations(1000000), 1214);

  const BatchSchedule fine(1024, {16, 8, 300000});
  for (const auto& [consumed, size] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{{0, 16},
                                                                    {2380, 16},
                                                                    {2381, 24},
                                                                    {4762, 32},
                                                                    {150000, 520},
                                                                    {299999, 1016},
                                                                    {300000, 1024},
                                                                    {300001, 1024}})
    EXPECT_EQ(fine.at(consumed), size) << consumed;
}

TEST(BatchSchedule, RunsThatEndWithinTheRampUp) {
  const BatchSchedule schedule(16, {4, 4, 64});
  EXPECT_EQ(schedule.iterations(4), 2);   // consumed 0 and 4 are not above 4
  EXPECT_EQ(schedule.iterations(24), 7);  // 6 of 4 sequences, and one of 8 from 24 on
  EXPECT_EQ(schedule.iterations(1), 1);
}

// Counted at once what would take as many steps one by one: equal where those can be counted.
TEST(BatchSchedule, StepsOfAnyRun) {
  const auto one_by_one = [](const BatchSchedule& schedule, std::int64_t last) {
    std::int64_t steps = 0;
    for (std::int64_t consumed = 0; consumed <= last; ++steps) consumed += schedule.at(consumed);
    return steps;
  };
  for (const char* text : {"0:8 1K:16 2.5k:4", "0:3 10:7 20:1 30:100", "0:5"})
    for (std::int64_t samples = 1; samples < 400; ++samples) {
      const BatchSchedule schedule = BatchSchedule::by_tokens(text, 10);
      EXPECT_EQ(schedule.iterations(samples), one_by_one(schedule, samples - 1)) << text;
    }
  for (const std::int64_t ramp : {1, 64, 300, 1001})
    for (std::int64_t samples = 1; samples < ramp; ++samples) {
      const BatchSchedule schedule(48, {16, 8, ramp});
      EXPECT_EQ(schedule.iterations(samples), one_by_one(schedule, samples)) << ramp;
    }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(BatchSchedule::by_tokens("0:1", 1).iterations(kMost), kMost);
  EXPECT_EQ(BatchSchedule::by_tokens("0:1 1K:2", 1).iterations(kMost),
            1000 + (kMost - 1000) / 2 + 1);
  // Half of the samples one by one, the other half by twos; f64 knows where but for rounding.
  const std::int64_t ramp = BatchSchedule(3, {1, 1, kMost}).iterations(kMost);
  EXPECT_NEAR(static_cast<double>(ramp) / static_cast<double>(kMost), 0.75, 1e-12);
}

TEST(BatchSchedule, SizesToCome) {
  const BatchSchedule schedule(16, {4, 4, 64});
  EXPECT_EQ(schedule.sizes_from(0), (std::vector<std::int64_t>{4, 8, 12, 16}));
  EXPECT_EQ(schedule.sizes_from(48), (std::vector<std::int64_t>{12, 16}));
  EXPECT_EQ(schedule.sizes_from(1000), (std::vector<std::int64_t>{16}));
}

// Megatron-LM main, StepBatchsizeNumMicroBatchesCalculator.
TEST(BatchSchedule, StepsByTokens) {
  const BatchSchedule schedule = BatchSchedule::by_tokens("0:8 1K:16, 2.5k:4", 10);
  EXPECT_EQ(schedule.at(0), 8);
  EXPECT_EQ(schedule.at(99), 8);
  EXPECT_EQ(schedule.at(100), 16);
  EXPECT_EQ(schedule.at(249), 16);
  EXPECT_EQ(schedule.at(250), 4);
  EXPECT_EQ(schedule.final_size(), 4);
  EXPECT_TRUE(schedule.changes());
  EXPECT_EQ(schedule.iterations(104), 13);
  EXPECT_EQ(schedule.iterations(105), 14);
  EXPECT_EQ(schedule.sizes_from(0), (std::vector<std::int64_t>{8, 16, 4}));
  EXPECT_EQ(schedule.sizes_from(100), (std::vector<std::int64_t>{16, 4}));
  const BatchSchedule large = BatchSchedule::by_tokens("0:768 250B:1536 0.5T:3072", 4096);
  EXPECT_EQ(large.at(61035155), 768);
  EXPECT_EQ(large.at(61035156), 1536);
  EXPECT_EQ(large.at(122070312), 3072);
}

TEST(BatchSchedule, WhatDoesNotFit) {
  const auto rampup = [](std::int64_t size, std::vector<std::int64_t> numbers) {
    return error_of([&] { BatchSchedule(size, numbers); });
  };
  EXPECT_EQ(rampup(16, {4, 4}),
            "78 --rampup-batch-size: 2 numbers, expected three: start, increment and samples");
  EXPECT_EQ(rampup(16, {4, 0, 64}),
            "78 --rampup-batch-size: start 4, increment 0, samples 64: expected numbers above 0");
  EXPECT_EQ(rampup(16, {16, 4, 64}),
            "78 --rampup-batch-size: starts at 16, expected less than --global-batch-size 16");
  EXPECT_EQ(rampup(16, {4, 5, 64}),
            "78 --rampup-batch-size: from 4 to --global-batch-size 16 is not a multiple of the "
            "increment 5");
  const auto steps = [](const std::string& text) {
    return error_of([&] { BatchSchedule::by_tokens(text, 10); });
  };
  const std::string name = "78 --step-batch-size-schedule ";
  EXPECT_EQ(steps(""), name + "\"\": expected one that begins at 0 tokens");
  EXPECT_EQ(steps("1K:8"), name + "\"1K:8\": expected one that begins at 0 tokens");
  EXPECT_EQ(steps("0:8 x:9"), name + "\"0:8 x:9\": \"x:9\": expected TOKENS:SEQUENCES");
  EXPECT_EQ(steps("0:8 9"), name + "\"0:8 9\": \"9\": expected TOKENS:SEQUENCES");
  EXPECT_EQ(steps("0:0"), name + "\"0:0\": \"0:0\": expected TOKENS:SEQUENCES");
  EXPECT_EQ(steps("0:8 5:9"), name + "\"0:8 5:9\": two begin at 0 sequences of 10 tokens");
  EXPECT_EQ(steps("0:8 9e30:9"), name + "\"0:8 9e30:9\": \"9e30:9\": expected TOKENS:SEQUENCES");
}

}  // namespace
}  // namespace mt
