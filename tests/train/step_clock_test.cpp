// What steps take, by a clock that the test sets.
#include "train/run/step_clock.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

StepClock::Clock::time_point now;

class Clocked : public testing::Test {
 protected:
  static StepClock::Clock::time_point at(int seconds) {
    return StepClock::Clock::time_point(std::chrono::seconds(seconds));
  }
  void begin(int second) {
    now = at(second);
    clock_.begin(stream_);
  }
  void end(int second) {
    now = at(second);
    clock_.end(stream_);
  }
  double seconds() {
    now += std::chrono::seconds(1000);  // whenever the host looks
    return clock_.seconds(stream_);
  }
  Stream stream_{Device::cpu};
  StepClock clock_{Device::cpu, [] { return now; }};
};

TEST_F(Clocked, StepsThatAreWaitedFor) {
  for (const int start : {10, 20, 35, 100}) {
    begin(start);
    end(start + 3);
    EXPECT_EQ(seconds(), 3);
  }
}

// Of the first and the last as of the others, and of those around an evaluation after the third.
TEST_F(Clocked, StepsThatBeginBeforeTheOneBeforeIsKnownOf) {
  begin(10);
  end(14);
  begin(15);
  end(21);
  EXPECT_EQ(seconds(), 4);
  begin(22);
  end(26);
  EXPECT_EQ(seconds(), 7);
  EXPECT_EQ(seconds(), 5);
  begin(90);
  end(92);
  begin(92);
  end(95);
  EXPECT_EQ(seconds(), 2);
  EXPECT_EQ(seconds(), 3);
}

}  // namespace
}  // namespace mt
