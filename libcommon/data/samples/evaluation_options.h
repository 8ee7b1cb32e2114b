// EvaluationOptions: when a run evaluates, and on how much.
#pragma once

#include <cstdint>

namespace mt {

class CommandLine;

struct EvaluationOptions {
  std::int64_t eval_iters = 100, eval_interval = 1000;
  bool skip_train = false;

  void add_to(CommandLine& cl);
};

}  // namespace mt
