// What to do about a run that does not fit: its largest tensors, and which option would save most,
// found by planning the same run with each.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "train/plan/plan.h"

namespace mt {

struct Saving {
  std::string option;     // "--micro-batch-size 2"
  std::size_t bytes = 0;  // that a rank needs with it
};

// The savings that need less than `plan`, the least first; the micro-batch is the largest that
// fits, or 1.
std::vector<Saving> savings(const RunOptions& options, const Task& task, const Plan& plan);

// Throws Exit::out_of_memory with `what` and the option that saves most, after it has logged what
// the memory is full of.
[[noreturn]] void fail_out_of_memory(const std::string& what, const RunOptions& options,
                                     const Task& task, const Plan& plan, const Log& log);

}  // namespace mt
