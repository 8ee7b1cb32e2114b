// Optimizer: all that happens to a step's gradients once the last micro-batch has added its own.
// Reduces them over the ranks, checks that they are finite, clips them, updates the weights.
//
// Every rank calls step() with its own sums of gradients; afterwards all have the same weights.
// Each Optimizer belongs to one thread; the table and the group must outlive it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "kernels/step_record.h"
#include "optim/optimizer_options.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

struct StepRates {
  double learning_rate = 0, weight_decay = 0;
  double divisor = 1;  // the ranks' gradients are sums of this many that are to be averaged
};

struct StepResult {
  double grad_norm = 0;                        // of the averaged gradient, before clipping
  std::optional<std::int64_t> num_zeros = {};  // with --log-num-zeros-in-grad
  bool skipped = false;   // the norm is not finite: neither weights nor state changed
  double loss_scale = 1;  // that the gradients were multiplied by
};

class Optimizer {
 public:
  // Allocates the table.
  Optimizer(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
            Group& ranks);

  // What the loss is to be multiplied by before its backward.
  double loss_scale() const { return 1; }
  // Of the table's gradients; before the first micro-batch.
  void zero_gradients(Stream& stream) const;
  StepResult step(const StepRates& rates, Stream& stream);

  const OptimizerOptions& options() const { return options_; }
  std::int64_t steps() const { return steps_; }           // that were not skipped
  void set_steps(std::int64_t steps) { steps_ = steps; }  // of a checkpoint
  // Megatron's names of what is remembered of each row.
  static const std::vector<std::string>& state_names();
  // Of a trainable row, what the name at `slot` says; in the row's shape.
  Tensor state(const Param& row, std::size_t slot) const { return states_[row.index].at(slot); }
  std::size_t bytes() const { return state_.peak_bytes(); }

 private:
  void reduce_gradients();
  double gradient_norm(Stream& stream) const;
  std::int64_t count_zeros(Stream& stream) const;
  void update(const StepRates& rates, double gradient_scale, Stream& stream);

  ParamTable& table_;
  OptimizerOptions options_;
  Group& ranks_;
  Arena state_;
  std::vector<std::vector<Tensor>> states_;  // by row, then slot
  StepRecord record_;
  std::int64_t steps_ = 0;
};

}  // namespace mt
