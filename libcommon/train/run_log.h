// RunLog: what a training run says of itself.  One JSON object a line, schema "mt-pretrain/1", to
// run.jsonl and, if asked, to stdout; and Megatron's log line to stderr.
//
//   {"schema":"mt-pretrain/1","event":"start",…options…}
//   {"schema":…,"event":"step","iteration":…,"consumed_samples":…,"loss":…,"lr":…,"grad_norm":…,
//    "tokens_per_second":…,"step_seconds":…}
//   {"schema":…,"event":"eval","split":"valid","iteration":…,"loss":…}
//   {"schema":…,"event":"save","iteration":…,"seconds":…}
//   {"schema":…,"event":"end","reason":…,"iteration":…,"memory":{…}}
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace mt {

struct StepReport {
  std::int64_t iteration = 0, consumed_samples = 0, global_batch_size = 0, tokens = 0;
  double loss = 0, grad_norm = 0;
  std::optional<std::int64_t> num_zeros = {};  // of the gradient's elements
  double learning_rate = 0;                    // of this step
  double next_learning_rate = 0;               // after it, which is what Megatron prints
  double seconds = 0;
};

class RunLog {
 public:
  // Appends to `path` (none if empty), which is opened with the first line.  Lines go through
  // line() of a rank that speaks; others get a RunLog with neither file nor stdout.
  RunLog(const std::string& path, bool to_stdout) : path_(path), to_stdout_(to_stdout) {}

  static JsonWriter event(const char* name);  // an open object
  void write(JsonWriter& open_object);        // closes it and writes the line
  void step(const StepReport& report);

 private:
  std::string path_;
  std::optional<File> file_;
  bool to_stdout_;
};

// Adds up steps and prints Megatron's line every `interval` of them.
class MegatronLog {
 public:
  MegatronLog(const Log& log, std::int64_t interval, std::int64_t train_iters)
      : log_(log), interval_(interval), train_iters_(train_iters) {}
  void step(const StepReport& report);
  // `where`: "" during training, " on validation set" and " on test set" after it.
  void evaluation(std::int64_t iteration, const std::string& where, double loss) const;

 private:
  Log log_;
  std::int64_t interval_, train_iters_, steps_ = 0;
  double loss_sum_ = 0, seconds_ = 0;
};

}  // namespace mt
