// CheckOptions: which numbers of a step end a run (train/check/result_checks.h).
#pragma once

#include <cstdint>
#include <vector>

namespace mt {

class CommandLine;

struct CheckOptions {
  bool finite = true, spiky_loss = false, large_grads = false;
  std::vector<std::int64_t> iterations_to_skip = {};  // from 0
  void add_to(CommandLine& cl);
};

}  // namespace mt
