// What the loss is multiplied by before its backward, so that small gradients do not vanish in a
// narrow type (Megatron's ConstantGradScaler and DynamicGradScaler).  How the dynamic one goes on:
// kernels/update.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/command.h"
#include "kernels/update.h"

namespace mt {

struct LossScaleOptions {
  std::optional<double> loss_scale;          // constant
  std::optional<double> initial_loss_scale;  // dynamic, from here on
  double min_loss_scale = 1;
  std::int64_t window = 1000;
  std::int64_t hysteresis = 2;

  void add_to(CommandLine& cl);
  void complete() const;
  void take_default();  // Megatron's of fp16, unless one was given: dynamic, from 2^32 on
  bool is_given() const { return loss_scale || initial_loss_scale; }
  bool is_dynamic() const { return !loss_scale && initial_loss_scale; }
  LossScaleState start() const;
  LossScaleRule rule() const;
};

}  // namespace mt
