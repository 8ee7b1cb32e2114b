// Adam over a table of parameters: one pair of moments for each, in two buffers laid out like the
// values.
#pragma once

#include "kernels/adam.h"
#include "kernels/step_record.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

class Adam {
 public:
  Adam(const ParamTable& table, const AdamOptions& options)
      : options_(options), exp_avg_(table.make_companion()), exp_avg_sq_(table.make_companion()) {}

  // Prepares `record` for the next step: its bias corrections, and the learning rate and weight
  // decay to be used.  Steps count from 1.
  void begin_step(StepRecord& record, double learning_rate, double weight_decay);
  // Updates every trainable row from its gradient times record->gradient_scale.
  void step(ParamTable& table, const StepRecord* record, Stream& stream) const;

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }  // of a checkpoint
  Tensor exp_avg(const ParamTable& table, const Param& row) const {
    return table.companion_of(row, exp_avg_);
  }
  Tensor exp_avg_sq(const ParamTable& table, const Param& row) const {
    return table.companion_of(row, exp_avg_sq_);
  }
  std::size_t bytes() const { return exp_avg_.bytes() + exp_avg_sq_.bytes(); }
  const AdamOptions& options() const { return options_; }

 private:
  AdamOptions options_;
  Buffer exp_avg_, exp_avg_sq_;
  std::int64_t steps_ = 0;
};

}  // namespace mt
