// Reports: all that a run says of itself while it goes on, passed on to the run log, Megatron's
// lines, TensorBoard, Weights & Biases and progress.txt.  Every rank has one and calls the same
// functions; rank 0 writes.
//
// TensorBoard's and Weights & Biases' tags are Megatron-LM's (core_v0.12.1, training_log), in
// TensorBoard each also "vs samples" where Megatron has that; "lm loss test" is ours, since
// Megatron puts the test's point into the curve of the validation.
#pragma once

#include <optional>
#include <span>

#include "base/json.h"
#include "train/plan/rank_memory.h"
#include "train/report/event_file.h"
#include "train/report/megatron_log.h"
#include "train/report/progress_log.h"
#include "train/report/results_file.h"
#include "train/report/run_log.h"
#include "train/report/step_profile.h"
#include "train/report/timers.h"
#include "train/report/train_progress.h"
#include "train/report/wandb_run.h"

namespace mt {

class Group;
struct ModelConfig;
struct RunOptions;

class Reports {
 public:
  Reports(const RunOptions& options, const ModelConfig& model, const Log& log, Group& ranks);

  // `begun` is after loading: where the run stands, with so many FLOPs done before.
  void start(std::int64_t iteration, std::int64_t parameters, double flops_before,
             const std::string& options_json);
  void step(const StepReport& report, const RankMemory& memory);  // a collective
  void evaluation(const EvaluationReport& report);
  void drawn(const DrawnReport& report);
  void epoch(std::int64_t epoch, std::int64_t iteration, std::span<const EpochReport> reports);
  void saving(const SaveReport& report);  // begun, to be written while training goes on
  void saved(const SaveReport& report);
  void profile(const ProfileReport& report);  // of any rank
  void end(const std::string& reason, std::int64_t iteration, const RankMemory& memory);

  Timers& timers() { return timers_; }
  TrainProgress& train_progress() { return train_progress_; }

 private:
  bool speaks() const { return ranks_.rank() == 0; }
  bool has_curves() const { return events_ || wandb_; }
  void curve(const std::string& tag, double value, std::int64_t iteration);
  // Also by the samples that were consumed, which only TensorBoard is told.
  void curve(const std::string& tag, double value, std::int64_t iteration, std::int64_t samples);
  void step_to_curves(const StepReport& report, const RankMemory& memory);
  void report_times(const StepReport& report);

  const RunOptions& options_;
  const ModelConfig& model_;
  Log log_;
  Group& ranks_;
  RunLog run_log_;
  MegatronLog megatron_log_;
  TrainProgress train_progress_;
  std::optional<EventFile> events_;
  std::optional<WandbRun> wandb_;
  std::optional<ProgressLog> progress_;
  ResultsFile results_;
  bool memory_reported_ = false;
  Timers timers_;
  std::int64_t timed_steps_ = 0;  // since timers_ were reset
  double timed_seconds_ = 0;
};

}  // namespace mt
