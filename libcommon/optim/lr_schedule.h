// Learning rate as a function of the samples consumed (Megatron's OptimizerParamScheduler).
//   W warm-up samples, D decay samples, n consumed samples, r = (n - W) / (D - W)
//   n <= W, W > 0   init + (max - init) n / W        constant   max
//   n > D           min                              linear     min + (1 - r) (max - min)
//                                    cosine     min + (cos(pi r) + 1) / 2 (max - min)
// Step i (from 1) runs with lr(n = samples consumed before it).  f64 throughout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/command.h"

namespace mt {

struct LrSchedule {
  double lr = 0, min_lr = 0, warmup_init = 0;
  std::string decay_style = "linear";
  std::optional<std::int64_t> decay_iters;  // default: the whole run
  std::int64_t warmup_iters = 0;
  std::optional<double> warmup_fraction;  // of the decay's length; instead of warmup_iters

  // Set by complete(), in samples.
  double warmup_samples = 0, decay_samples = 0;

  void add_to(CommandLine& cl);
  // `train_samples` 0: the run's length is train_iters steps of global_batch_size.
  void complete(std::int64_t train_iters, std::int64_t global_batch_size,
                std::int64_t train_samples = 0);
  double at(std::int64_t consumed_samples) const;
};

}  // namespace mt
