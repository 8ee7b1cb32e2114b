#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/ops.h"

namespace mt {

const std::vector<std::string>& Optimizer::state_names() {
  static const std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  return names;
}

Optimizer::Optimizer(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
                     Group& ranks)
    : table_(table), options_(options), ranks_(ranks) {
  table_.allocate(device, dtype, true);
  const auto allocate = [&](Arena& arena) {
    states_.assign(table_.rows().size(), {});
    for (const Param& row : table_.rows())
      for (std::size_t slot = 0; row.trainable && slot < state_names().size(); ++slot)
        states_[row.index].push_back(arena.alloc(dtype, row.shape));
    return arena.peak_bytes();
  };
  Arena measure(Buffer(Device::meta, kMeasuring));
  state_ = Arena(Buffer(device, allocate(measure)));
  allocate(state_);
}

void Optimizer::zero_gradients(Stream& stream) const { set_zero(table_.gradients(), stream); }

void Optimizer::reduce_gradients() { ranks_.all_reduce(table_.gradients()).wait(); }

double Optimizer::gradient_norm(Stream& stream) const {
  return std::sqrt(sum_squares(table_.gradients(), stream));
}

std::int64_t Optimizer::count_zeros(Stream& stream) const {
  std::int64_t zeros = 0;
  for (const Param& row : table_.rows())
    if (row.trainable) zeros += mt::count_zeros(row.grad, stream);
  return zeros;
}

StepResult Optimizer::step(const StepRates& rates, Stream& stream) {
  reduce_gradients();
  StepResult result{.grad_norm = gradient_norm(stream) / rates.divisor};
  result.skipped = !std::isfinite(result.grad_norm);
  if (result.skipped) return result;
  if (options_.log_num_zeros_in_grad) result.num_zeros = count_zeros(stream);
  // 1e-6 as in Megatron's clip_grad_by_total_norm_fp32.
  const double clip = options_.clip_grad > 0 ? options_.clip_grad / (result.grad_norm + 1e-6) : 1;
  update(rates, std::min(clip, 1.0) / rates.divisor, stream);
  return result;
}

void Optimizer::update(const StepRates& rates, double gradient_scale, Stream& stream) {
  ++steps_;
  record_.learning_rate = rates.learning_rate;
  record_.weight_decay = rates.weight_decay;
  record_.bias_correction1 = 1 - std::pow(options_.adam.beta1, static_cast<double>(steps_));
  record_.bias_correction2 = 1 - std::pow(options_.adam.beta2, static_cast<double>(steps_));
  record_.gradient_scale = gradient_scale;
  for (const Param& row : table_.rows())
    if (row.trainable)
      adam(row.value, state(row, 0), state(row, 1), row.grad, options_.adam, row.learning_rate_mult,
           row.decay_mult, &record_, stream);
}

}  // namespace mt
