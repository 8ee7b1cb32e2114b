#include "train/report/timer_report.h"

#include <gtest/gtest.h>

#include <thread>

namespace mt {
namespace {

// Two ranks: both ran forward-backward, one of them the batch generator.
std::vector<Timers::Seconds> two_ranks() {
  std::vector<Timers::Seconds> ranks(2);
  ranks[0][0] = 0.5, ranks[1][0] = 1.25;
  ranks[1][3] = 0.0123;
  return ranks;
}

// Megatron-LM's text, core/timers.py.
TEST(TimerText, Forms) {
  EXPECT_EQ(timer_text(two_ranks(), "minmax", 10),
            "(min, max) time across ranks (ms):\n"
            "    forward-backward ...............................: (50.00, 125.00)\n"
            "    batch-generator ................................: (1.23, 1.23)");
  EXPECT_EQ(timer_text(two_ranks(), "max", 1),
            "max time across ranks (ms):\n"
            "    forward-backward ...............................: 1250.00\n"
            "    batch-generator ................................: 12.30");
  EXPECT_EQ(timer_text(two_ranks(), "all", 1),
            "times across ranks (ms):\n"
            "  forward-backward:\n"
            "     rank  0: 500.00\n"
            "     rank  1: 1250.00\n"
            "  batch-generator:\n"
            "     rank  1: 12.30");
  EXPECT_EQ(timer_text(std::vector<Timers::Seconds>(2), "all", 1), "");
}

TEST(TimerText, LongestOfTheRanks) {
  const std::vector<std::pair<std::string, double>> expected = {{"forward-backward", 0.125},
                                                                {"batch-generator", 0.00123}};
  EXPECT_EQ(longest_seconds(two_ranks(), 10), expected);
}

TEST(Timers, MeasureWhatTheirLevelAsksFor) {
  for (const int level : {0, 1, 2}) {
    Timers timers(level);
    for (const Timed part : {Timed::optimizer, Timed::batch_generator}) {
      const auto timing = timers.measure(part);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(timers.seconds()[8] >= 0.002, level >= 1);
    EXPECT_EQ(timers.seconds()[3] >= 0.002, level >= 2);
    timers.reset();
    EXPECT_EQ(timers.seconds(), Timers::Seconds());
  }
}

TEST(Timers, AreGatheredOnEveryRank) {
  run_ranks(3, [](Group& ranks) {
    Timers timers(2);
    if (ranks.rank() == 1) {
      const auto timing = timers.measure(Timed::forward_compute);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const auto all = gather_seconds(timers, ranks);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0][1], 0);
    EXPECT_GE(all[1][1], 0.002);
    EXPECT_EQ(all[2][1], 0);
  });
}

}  // namespace
}  // namespace mt
