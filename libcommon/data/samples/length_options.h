// LengthOptions: how long a run is.
#pragma once

#include <cstdint>
#include <optional>

#include "data/samples/split.h"

namespace mt {

class CommandLine;
struct BatchOptions;
struct EvaluationOptions;

struct LengthOptions {
  std::int64_t train_iters = 0, train_samples = 0;  // one is given; complete() derives train_iters
  // Instead of both: those that the data has, for a run that takes them all; its last step has what
  // is left.
  std::int64_t data_samples = 0;
  // Where a job ends, for another to go on.
  std::optional<std::int64_t> exit_interval;
  std::optional<double> exit_duration_in_mins;

  void add_to(CommandLine& cl);
  void add_exits_to(CommandLine& cl);
  // Checks that the length is given once, and as these steps, whose schedule is made, allow.
  void complete(const BatchOptions& batch);
};

// What a run asks of its data.  full_validation: each evaluation takes all of it, once.
TrainingLength training_length(const LengthOptions& length, const BatchOptions& batch,
                               const EvaluationOptions& evaluation, bool full_validation);

}  // namespace mt
