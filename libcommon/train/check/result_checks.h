// ResultChecks: numbers of a step that end a run, as Megatron-LM's rerun machine rejects them
// (core_v0.12.1, core/rerun_state_machine.py): on each rank the sum of the
// losses of a micro-batch, and the norm of its gradient before it is reduced.
//   not finite        --no-check-for-nan-in-loss-and-grad lets such a step be skipped instead
//   spiky, large      with --check-for-spiky-loss, --check-for-large-grads: at least 10 times the
//                     largest of the first 100 values since the program started
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "train/check/check_options.h"

namespace mt {

// Whether values are unexpectedly large; those that are not finite are neither looked at nor
// counted.
class SpikeDetector {
 public:
  bool is_spike(double value);

 private:
  int count_ = 0;
  double largest_ = 0;
};

// Behind a result that is rejected: whether what was computed again has its bits.
std::string said_of_both(std::span<const double> first, std::span<const double> again);

class ResultChecks {
 public:
  ResultChecks(const CheckOptions& options, Group& ranks) : options_(options), ranks_(ranks) {}

  // A rank's own results of a step: the losses of its micro-batches, and the norm of its gradient.
  // Collectives: the first rank whose result is rejected throws Exit::difference, and the others
  // Exit::peer_failed.  `where` goes into the text, if that rank has something to say there, and
  // what `again` says, which all ranks call when one rejects.
  using Again = std::function<std::string()>;
  void check_losses(std::int64_t iteration, std::span<const double> losses,
                    const std::string& where = {}, const Again& again = {});
  void check_gradient(std::int64_t iteration, double norm, const std::string& where = {},
                      const Again& again = {});

 private:
  void reject(std::int64_t iteration, const std::string& what, const Again& again) const;

  CheckOptions options_;
  Group& ranks_;
  SpikeDetector losses_, gradients_;
};

}  // namespace mt
