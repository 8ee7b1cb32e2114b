#include "train/train_step.h"

#include <algorithm>
#include <cmath>

#include "ops/ops.h"
#include "train/batch_loader.h"

namespace mt {

TrainStep::TrainStep(const TrainOptions& options, const TrainData& data, const Parts& parts)
    : options_(options), data_(data), parts_(parts), checks_(options.checks, parts.world.all()) {}

// The gradients of the step, this rank's part of them; returns the loss and the tokens of all
// ranks.
std::array<double, 2> TrainStep::forward_backward(const Asked& asked) {
  parts_.optimizer.zero_gradients(parts_.stream);
  BatchLoader loader(options_, data_.training(), asked.first_sample, asked.micro_batches,
                     parts_.world, parts_.optimizer.loss_scale());
  double loss = 0;
  {
    const auto timing = parts_.timers.measure(Timed::forward_backward);
    const auto load = [&](int i, const Batch& batch) {
      const auto loading = parts_.timers.measure(Timed::batch_generator);
      return loader.load(i, batch);
    };
    const int rank = parts_.world.pipeline().rank();
    loss = parts_.executor.run(options_.pipeline_layout.training(rank, asked.micro_batches), load,
                               true);
  }
  return sum_losses(parts_.world, loss, loader.tokens());
}

// What the sum of the ranks' gradients is divided by: it is the sum of the data-parallel ranks'
// micro-batches' means, or that over all tokens.
double TrainStep::divisor(double tokens) const {
  return options_.calculate_per_token_loss ? std::max(1.0, tokens) : parts_.world.data().size();
}

// Of this rank's sum.
double TrainStep::gradient_norm() {
  return std::sqrt(sum_squares(parts_.model.table().gradients(), parts_.stream));
}

StepResult TrainStep::update(const StepRates& rates, double tokens) {
  const NamedRange range("optimizer");
  const auto timing = parts_.timers.measure(Timed::optimizer);
  return parts_.optimizer.step(rates, divisor(tokens), parts_.stream);
}

// Ends the run after a step whose loss or gradient is not finite.  The step is run again, which
// gives the same bits, to see where that began.
void TrainStep::failed(const Asked& asked, double loss, double grad_norm) {
  NonFiniteProbe probe;
  parts_.executor.show_to(probe);
  // The gradients of each rank by itself.
  const bool own_gradients = parts_.optimizer.has_own_gradients();
  if (own_gradients) parts_.executor.share(nullptr);
  forward_backward(asked);
  if (own_gradients) probe.look_at_gradients(parts_.model.table(), parts_.stream);
  std::string where;
  if (probe.first())
    where = concat(", first seen in the ", probe.first()->what, " of the module with ",
                   probe.first()->parameter);
  checks_.check_losses(asked.iteration, parts_.executor.losses(), where);
  if (own_gradients) checks_.check_gradient(asked.iteration, gradient_norm(), where);
  fail(Exit::difference, "iteration ", asked.iteration, ": loss ", loss, ", gradient norm ",
       grad_norm, ": not finite", where.empty() ? ", though every rank's were" : where,
       "; nothing was updated");
}

TrainStep::Result TrainStep::run(const Asked& asked) {
  const NamedRange range("step ", asked.iteration);
  const auto [sum, tokens] = forward_backward(asked);
  Result result{.loss = sum / tokens};
  const CheckOptions& checks = options_.checks;
  if (checks.finite && !std::isfinite(result.loss)) failed(asked, result.loss, 0);
  if (checks.spiky_loss) checks_.check_losses(asked.iteration, parts_.executor.losses());
  if (checks.large_grads) {
    const double scale =
        parts_.optimizer.loss_scale() * divisor(tokens) / parts_.world.data().size();
    checks_.check_gradient(asked.iteration, gradient_norm() / scale);
  }
  result.update = update(asked.rates, tokens);
  result.divisor = divisor(tokens);
  if (checks.finite && !std::isfinite(result.update.grad_norm))
    failed(asked, result.loss, result.update.grad_norm);
  return result;
}

}  // namespace mt
