// What the programs that train do alike, once they know their options: they find their ranks, print
// a plan, or run.
#pragma once

#include <functional>
#include <memory>

namespace mt {

class CommandLine;
class Log;
class Task;
struct PlanOptions;
struct RunOptions;

// Takes the place that a launcher gave this process, if one did.  After parsing.  `runs`: the
// ranks are to train, and not only to be told of.
void find_ranks(CommandLine& cl, RunOptions& run, bool runs);

// Prints the plan of a task, or with --plan-search those that are best.  Once the machine is known,
// `task` completes the options, but of a search, and makes what is planned.
void print_plan(RunOptions& run, PlanOptions& plan, const Log& log,
                const std::function<std::unique_ptr<Task>()>& task);

// Runs what `open` opens: as this rank, or starting the ranks of this host; or checks the layout
// instead.  Signals that come meanwhile are heeded.
void run_training(CommandLine& cl, RunOptions& run, bool check_layout,
                  const std::function<std::unique_ptr<Task>()>& open);

}  // namespace mt
