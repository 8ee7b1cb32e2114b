// MegatronLog: Megatron-LM's lines on stderr (core_v0.12.1, training_log and
// evaluate_and_print_results), character for character.  Of ours are alone the field ` MFU (%): …
// |` after the throughput, with --peak-tflops; and that ranks stand where Megatron counts GPUs.
// With --log-format json they are events; where a terminal shows TrainProgress, -v shows them too.
#pragma once

#include <string>

#include "base/log.h"
#include "train/options/report_options.h"
#include "train/run/step_report.h"

namespace mt {

std::string timestamp();  // "2026-08-22 15:04:05", local time

class MegatronLog {
 public:
  MegatronLog(const Log& log, const ReportOptions& options, std::int64_t train_iters, int ranks)
      : log_(log), options_(options), train_iters_(train_iters), ranks_(ranks) {}

  // Adds a step up; prints every --log-interval of them.
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report) const;
  void epoch(std::int64_t epoch, std::int64_t iteration, const EpochReport& report) const;
  void lines(const std::string& text) const;  // as they are
  bool is_drawn() const;                      // by TrainProgress, instead

 private:
  std::string step_line(const StepReport& report) const;
  void step_event(const StepReport& report) const;

  Log log_;
  ReportOptions options_;
  std::int64_t train_iters_;
  int ranks_;
  struct Sums {  // since the last line
    int advanced = 0, skipped = 0, nan = 0;
    double seconds = 0;
    TermValues losses = {};
  } sums_;
};

}  // namespace mt
