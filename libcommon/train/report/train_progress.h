// TrainProgress: how far training is, for whoever waits for it.  On a terminal one line,
//   step 120 of 5000  loss 3.418  181k tokens/s  1h03m left
// in place of Megatron's (which -v shows all the same); elsewhere a line for the first step, or,
// with --progress json, an event every second.  On USR2 an event with all it knows.  Of rank 0.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "base/activity.h"
#include "train/run/step_report.h"

namespace mt {

class TrainProgress {
 public:
  using Clock = std::chrono::steady_clock;

  TrainProgress(const Log& log, std::int64_t train_iters);
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;
  ~TrainProgress() { finish(); }
  void starts_at(std::int64_t iteration);
  void step(const StepReport& report);
  void doing(const char* what);  // "training", "evaluating", "saving"
  void finish() const { log_.draw(); }

 private:
  double seconds_left() const;
  double tokens_per_second() const;
  void show();
  void tell(const char* event, Log::Level at) const;

  Log log_;
  std::int64_t train_iters_;
  mutable std::mutex mutex_;                // of what follows
  std::int64_t iteration_ = 0, first_ = 0;  // first_: after which this run went on
  std::optional<StepReport> last_;
  double seconds_ = 0;  // of a step, lately
  const char* doing_ = "starting";
  Clock::time_point start_ = Clock::now(), ended_ = start_, shown_ = start_;
  std::optional<Activity> asked_;
};

}  // namespace mt
