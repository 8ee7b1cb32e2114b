// StepClock: how long steps took where they are computed, two of which may be under way:
//   seconds = end - (the end of the step before, if that was under way when this one began,
//                    or else the beginning)
// with the end when all is done that the step has queued.  So the steps that follow each other add
// up to the time that they took, whenever the host looks, and what happens between two of them when
// none is under way (an evaluation, a save) is not theirs.  Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "tensor/stream.h"

namespace mt {

class StepClock {
 public:
  using Clock = std::chrono::steady_clock;

  // On the CPU by what `now` returns, on a GPU by its own clock.
  explicit StepClock(Device device, Clock::time_point (*now)() = Clock::now);
  StepClock(const StepClock&) = delete;
  ~StepClock();

  void begin(Stream& stream);
  void end(Stream& stream);
  // How long the first step took that was ended and not told of; waits for its end.
  double seconds(Stream& stream);

 private:
  struct Mark {
    EventHandle event = nullptr;  // on a GPU
    Clock::time_point time = {};
  };
  struct Step {
    Mark begin, end;
    bool follows = false;  // one that was under way
  };
  Step& step(std::size_t number) { return steps_[number % steps_.size()]; }
  void set(Mark& mark, Stream& stream) const;

  Clock::time_point (*now_)();
  std::array<Step, 3> steps_ = {};  // two, and the end of the one before
  std::size_t ended_ = 0, told_ = 0;
};

}  // namespace mt
