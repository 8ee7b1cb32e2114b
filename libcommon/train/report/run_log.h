// RunLog: what a training run says of itself.  One JSON object a line, schema "mt-pretrain/1", to
// run.jsonl and, if asked, to stdout.
//
//   {"schema":"mt-pretrain/1","event":"start",…options…}
//   {"schema":…,"event":"step","iteration":…,"consumed_samples":…,"loss":…,"lr":…,"grad_norm":…,
//    "tokens_per_second":…,"step_seconds":…}
//    of a model of experts expert_loads, of each layer how often the expert that is chosen most
//    often is, over the mean, and expert_load, the largest of these; expert_drops, of each layer
//    the part of all choices of experts that had no room, and expert_drop; and each further loss
//    under its name, as in "sop_loss", and of skipped, loss_scale, skipped_samples, num_zeros,
//    params_norm, max_attention_logit, tflops, mfu what there is to say; step_seconds by
//    train/run/step_clock.h, and tokens_per_second is the step's tokens over them
//   {"schema":…,"event":"eval","split":"valid","set":…,"iteration":…,"loss":…}
//   {"schema":…,"event":"epoch","epoch":…,"set":…,"iteration":…} and what a task says of it
//   {"schema":…,"event":"save","iteration":…,"seconds":…}
//   {"schema":…,"event":"end","reason":…,"iteration":…,"memory":{…}}
#pragma once

#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "train/options/report_options.h"
#include "train/run/step_report.h"

namespace mt {

class RunLog {
 public:
  // Appends to options.run_log (none if empty), which is opened with the first line.
  RunLog(const ReportOptions& options, int ranks) : options_(options), ranks_(ranks) {}

  static JsonWriter event(const char* name);  // an open object
  void write(JsonWriter& open_object);        // closes it and writes the line
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report);
  void drawn(const DrawnReport& report);
  void epoch(std::int64_t epoch, std::int64_t iteration, const EpochReport& report);

 private:
  ReportOptions options_;
  int ranks_;
  std::optional<File> file_;
};

}  // namespace mt
