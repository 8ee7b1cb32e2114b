#include "infer/step_runs.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

using Runs = std::vector<std::size_t>;
using Before = std::vector<std::optional<std::size_t>>;

Runs runs_of(const std::vector<std::int64_t>& rows, const Before& before) {
  return step_runs(rows, before, 4);
}

TEST(StepRuns, AreFilledInOrder) {
  EXPECT_EQ(runs_of({}, {}), Runs{});
  EXPECT_EQ(runs_of({1, 1, 1, 1}, Before(4)), (Runs{0, 0, 0, 0}));
  EXPECT_EQ(runs_of({1, 1, 1, 1, 1}, Before(5)), (Runs{0, 0, 0, 0, 1}));
  EXPECT_EQ(runs_of({3, 2, 1}, Before(3)), (Runs{0, 1, 0}));
  EXPECT_EQ(runs_of({3, 3, 3}, Before(3)), (Runs{0, 1, 2}));  // more than hold all rows
}

// One of the first run has ended, and one has begun: it takes the place that is free.
TEST(StepRuns, WhoGoesOnStays) {
  EXPECT_EQ(runs_of({1, 1, 1, 1, 1}, {0, 0, 0, 1, 1}), (Runs{0, 0, 0, 1, 1}));
  EXPECT_EQ(runs_of({1, 1, 1, 1, 1, 1}, {0, 0, 0, 1, 1, {}}), (Runs{0, 0, 0, 1, 1, 0}));
}

TEST(StepRuns, ThereAreNoMoreThanNeeded) {
  EXPECT_EQ(runs_of({1, 1, 1, 1}, {0, 0, 1, 1}), (Runs{0, 0, 0, 0}));
  EXPECT_EQ(runs_of({1, 1, 1, 1}, {2, 1, 1, 1}), (Runs{0, 0, 0, 0}));
}

// It has more rows than before, and its run has no room for them.
TEST(StepRuns, WhoGrowsMoves) {
  EXPECT_EQ(runs_of({1, 1, 1, 3}, {0, 0, 0, 0}), (Runs{0, 0, 0, 1}));
}

}  // namespace
}  // namespace mt
