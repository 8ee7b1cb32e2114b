#include "train/plan/step_times.h"

#include <algorithm>

namespace mt {
namespace {

using Kind = Action::Kind;

std::vector<ActionSeconds> seconds_of(const RankParts& rank) {
  std::vector<ActionSeconds> seconds;
  for (std::size_t i = 1; i + 1 < rank.size(); ++i)
    seconds.push_back({rank[i].seconds(), rank[i].transfer, rank[i].not_before});
  return seconds;
}

// How long a rank's weight gradients take in a step.
double weight_gradient_seconds(const Schedule& schedule,
                               const std::vector<ActionSeconds>& seconds) {
  double sum = 0;
  for (std::size_t i = 0; i < schedule.size(); ++i)
    if (schedule[i].kind == Kind::weight_gradients) sum += seconds[i].work;
  return sum;
}

// The parts of the timeline that ranks wait, and that they would by the formula.
void find_idle(StepTimes& times, const PipelineLayout& layout, int micro_batches,
               const std::vector<std::vector<ActionSeconds>>& seconds) {
  const auto ranks = static_cast<double>(layout.ranks);
  double busy = 0, weight_gradients = 0;
  int deferring = 0;
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    busy += times.timeline.busy(r, times.schedules[r]) / ranks;
    if (!defers_weight_gradients(times.schedules[r])) continue;
    weight_gradients += weight_gradient_seconds(times.schedules[r], seconds[r]);
    ++deferring;
  }
  const double bubble = bubble_seconds(
      {.interleaved = layout.chunks > 1,
       .zero_bubble = deferring > 0,
       .ranks = layout.ranks,
       .chunks = layout.chunks,
       .micro_batch = busy / micro_batches,
       .weight_gradients = deferring > 0 ? weight_gradients / deferring / micro_batches : 0});
  times.idle = 1 - busy / times.timeline.seconds;
  times.formula = bubble / (busy + bubble);
}

void find_families(StepTimes& times, const RankParts& rank) {
  double sum = 0;
  for (const RankClock::Part& part : rank) {
    for (std::size_t i = 0; i < kFamilies; ++i) times.families[i] += part.families[i];
    times.launches += part.launch;
    sum += part.seconds();
  }
  times.waiting = std::max(0.0, times.seconds - sum);
}

}  // namespace

StepTimes step_times(const PipelineLayout& layout, int micro_batches,
                     const std::vector<const RankParts*>& ranks) {
  StepTimes times;
  std::vector<std::vector<ActionSeconds>> seconds;
  for (int stage = 0; stage < layout.ranks; ++stage) {
    times.schedules.push_back(layout.training(stage, micro_batches));
    seconds.push_back(seconds_of(*ranks[static_cast<std::size_t>(stage)]));
  }
  times.timeline = make_timeline(times.schedules, seconds);
  find_idle(times, layout, micro_batches, seconds);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankParts& rank = *ranks[r];
    const double end = rank.front().seconds() + times.timeline.end(r) + rank.back().seconds();
    if (end > times.seconds) {
      times.seconds = end;
      times.slowest = r;
    }
  }
  find_families(times, *ranks[times.slowest]);
  return times;
}

}  // namespace mt
