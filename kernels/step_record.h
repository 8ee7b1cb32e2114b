// StepRecord: what changes from one run of a step to the next (DESIGN D2b).  It lives on the device
// and is filled before the step; kernels take its address, never its values, so that a captured
// step can be replayed.
#pragma once

#include <cstdint>

namespace mt {

struct StepRecord {
  std::int64_t first_sample = 0;  // global number of the micro-batch's first sequence
  double learning_rate = 0;
  double weight_decay = 0;
  double bias_correction1 = 1, bias_correction2 = 1;  // Adam: 1 - beta^t
  double gradient_scale = 1;  // clipping and averaging, applied by the optimizer
};

}  // namespace mt
