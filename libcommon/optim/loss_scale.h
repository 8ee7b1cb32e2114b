// LossScale: what the loss is multiplied by before its backward, so that small gradients do not
// vanish in a narrow type (Megatron's ConstantGradScaler and DynamicGradScaler).  The dynamic one,
// after each step:
//   overflow   growth = 0; hysteresis -= 1; if hysteresis <= 0: scale = max(scale / 2, least)
//   else       growth += 1; if growth = window: growth = 0; hysteresis = its start; scale *= 2
// so that after the first halving every further overflow halves too, until `window` steps went
// well.
#pragma once

#include <cstdint>
#include <optional>

#include "base/command.h"

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
};

class LossScale {
 public:
  struct State {  // as a checkpoint keeps it
    double scale = 1;
    std::int64_t growth = 0, hysteresis = 0;
  };
  explicit LossScale(const LossScaleOptions& options);

  double value() const { return state_.scale; }
  void update(bool overflow);  // after a step
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  LossScaleOptions options_;
  State state_;
};

}  // namespace mt
