// Whether a layout computes what one rank does (mt-pretrain --check-layout): the first steps of a
// run, by the ranks that the options ask for and by one rank alone, over the same samples and with
// the same dropout.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace mt {

class Log;
class Task;
struct RunOptions;

// What the first steps of a run made.  Tensors are whole, in f64: of the model's parameters, by
// name, whichever ranks have their parts.
struct LayoutRun {
  using Tensors = std::map<std::string, std::vector<double>>;
  struct Step {
    double loss = 0, grad_norm = 0;
    Tensors gradients;  // means over the step, before clipping
  };
  std::vector<Step> steps;
  Tensors weights;  // after the last
};
// The task has its samples.
LayoutRun run_layout(const RunOptions& options, const Task& task, int steps);

// These options for one rank.
RunOptions on_one_rank(RunOptions options, const Task& task);

// The largest difference of two runs' numbers and where it is: of losses and norms relative to
// theirs, of a tensor to its largest element.
struct LayoutDifference {
  double value = 0;
  std::string where;  // "loss of step 1", "gradient of step 2 of NAME", "weight NAME"
};
LayoutDifference largest_difference(const LayoutRun& got, const LayoutRun& expected);

// Runs two steps both ways, in fp32 one, and prints what was compared.  Exit::difference beyond
// 1e-9 in fp64 or 1e-5 in fp32, where what Adam makes of the first step is not compared: it
// amplifies rounding where a gradient is nearly zero.
void check_layout(const RunOptions& options, Task& task, const Log& log, std::ostream& out);

}  // namespace mt
