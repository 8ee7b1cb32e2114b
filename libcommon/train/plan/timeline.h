// Timeline: when each rank of a pipeline does what its schedule says, given how long each action
// takes.  A rank goes through its list; a receive lasts until the message has come; a message
// leaves when the one before it to the same rank in the same direction has arrived, and its sender
// goes on meanwhile.
#pragma once

#include <vector>

#include "train/run/schedule.h"

namespace mt {

struct ActionSeconds {
  double work = 0;        // of this rank
  double transfer = 0;    // of the message that it sends
  double not_before = 0;  // after the step's begin
};

struct Timeline {
  struct Span {
    double begin = 0, end = 0;
  };
  std::vector<std::vector<Span>> ranks;  // of each one's actions
  double seconds = 0;                    // until the last rank is done

  // The time in which a rank computes, and the time at which it ends.
  double busy(std::size_t rank, const Schedule& schedule) const;
  double end(std::size_t rank) const;
};

// `seconds` of each rank's actions in the order of its schedule.  Exit::internal for schedules that
// wait for each other for ever.
Timeline make_timeline(const std::vector<Schedule>& schedules,
                       const std::vector<std::vector<ActionSeconds>>& seconds);

// How long a rank waits in a step by the formulas of train/run/schedule.h.
struct BubbleOf {
  bool interleaved = false, zero_bubble = false;
  int ranks = 1, chunks = 1;
  double micro_batch = 0;       // seconds of a rank's forward, backward and weight gradients
  double weight_gradients = 0;  // of these
};
double bubble_seconds(const BubbleOf& of);

}  // namespace mt
