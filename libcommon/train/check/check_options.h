// CheckOptions: which numbers of a step end a run (train/check/result_checks.h), and when copies of
// weights are compared (train/check/replica_check.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

class CommandLine;

struct CheckOptions {
  bool finite = true, spiky_loss = false, large_grads = false;
  std::vector<std::int64_t> iterations_to_skip = {};  // from 0
  std::string rerun_mode = "disabled";                // or validate_results
  std::int64_t replicas_interval = 0;                 // steps; 0: copies are not compared
  bool test_mode = false;
  void add_to(CommandLine& cl);
  bool computes_again() const { return rerun_mode == "validate_results"; }
  bool compares_replicas() const { return replicas_interval > 0 || test_mode; }
  bool compares_replicas_after(std::int64_t iteration) const {
    return test_mode || (replicas_interval > 0 && iteration % replicas_interval == 0);
  }
};

}  // namespace mt
