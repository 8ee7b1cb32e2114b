#include "optim/adam.h"

#include <cmath>

#include "ops/ops.h"

namespace mt {

void Adam::begin_step(StepRecord& record, double learning_rate, double weight_decay) {
  ++steps_;
  record.learning_rate = learning_rate;
  record.weight_decay = weight_decay;
  record.bias_correction1 = 1 - std::pow(options_.beta1, static_cast<double>(steps_));
  record.bias_correction2 = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
}

void Adam::step(ParamTable& table, const StepRecord* record, Stream& stream) const {
  for (const Param& row : table.rows())
    if (row.trainable)
      adam(row.value, exp_avg(table, row), exp_avg_sq(table, row), row.grad, options_,
           row.learning_rate_mult, row.decay_mult, record, stream);
}

}  // namespace mt
