// StepTimes: how long a step takes, from how long each rank of a pipeline takes for its parts: what
// comes before the schedule, each action of that, and what comes after it, in which the ranks wait
// for each other.
#pragma once

#include <vector>

#include "train/plan/rank_clock.h"
#include "train/plan/timeline.h"
#include "train/run/pipeline_layout.h"

namespace mt {

// RankParts: one rank's, a part for each action, one before and one after them.
using RankParts = std::vector<RankClock::Part>;

struct StepTimes {
  double seconds = 0;
  std::vector<Schedule> schedules;
  Timeline timeline;                // of the schedules
  double idle = 0, formula = 0;     // part of the timeline that a rank waits, on average
  std::size_t slowest = 0;          // the rank that takes longest
  PerFamily<double> families = {};  // its seconds
  double launches = 0;              // its seconds between captured graphs
  double waiting = 0;               // its seconds for other stages and for values on their way
};

StepTimes step_times(const PipelineLayout& layout, int micro_batches,
                     const std::vector<const RankParts*>& ranks);

}  // namespace mt
