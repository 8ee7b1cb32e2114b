// A training run: what mt-pretrain does once its options stand.
#pragma once

#include "base/log.h"
#include "base/signals.h"

namespace mt {

class Task;
struct RunOptions;

// Trains on options.ranks of the CPU, or on one of a GPU, until the last of options.length,
// evaluates, and tests. Stops after the step or the micro-batch of an evaluation in which INT, TERM
// or USR1 came, with a checkpoint if options.checkpoint.save is set, and then throws Exit::stopped;
// returns before the last step where --exit-interval or --exit-duration-in-mins say so.  A loss
// that is not finite throws before the weights change.
void train(const RunOptions& options, Task& task, Signals& signals, const Log& log,
           const std::string& options_json);

}  // namespace mt
