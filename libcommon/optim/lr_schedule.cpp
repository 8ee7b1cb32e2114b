#include "optim/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace mt {

void LrSchedule::add_to(CommandLine& cl) {
  cl.section("Learning rate");
  cl.option("--lr", &lr, "F", "peak learning rate", greater_than(0));
  cl.option("--min-lr", &min_lr, "F", "learning rate at the end of the decay", at_least(0));
  cl.option("--lr-decay-style", &decay_style, "STYLE", "constant, linear or cosine",
            one_of({"constant", "linear", "cosine"}));
  cl.option("--lr-decay-iters", &decay_iters, "N", "steps until --min-lr; default --train-iters",
            at_least(1));
  cl.option("--lr-warmup-iters", &warmup_iters, "N", "steps of linear warm-up", at_least(0));
  cl.option("--lr-warmup-fraction", &warmup_fraction, "F",
            "warm-up as a part of the decay's length", between(0, 1));
  cl.option("--lr-warmup-init", &warmup_init, "F", "learning rate at the start of the warm-up",
            at_least(0));
}

void LrSchedule::complete(std::int64_t train_iters, std::int64_t global_batch_size,
                          std::int64_t train_samples) {
  if (min_lr > lr) fail(Exit::bad_config, "--min-lr ", min_lr, ": larger than --lr ", lr);
  if (warmup_init > lr)
    fail(Exit::bad_config, "--lr-warmup-init ", warmup_init, ": larger than --lr ", lr);
  if (warmup_fraction && warmup_iters > 0)
    fail(Exit::usage, "--lr-warmup-fraction and --lr-warmup-iters exclude each other");
  const auto batch = static_cast<double>(global_batch_size);
  if (train_samples > 0 && (decay_iters || warmup_iters > 0))
    fail(Exit::usage, "--lr-decay-iters and --lr-warmup-iters need --train-iters");
  decay_samples = train_samples > 0
                      ? static_cast<double>(train_samples)
                      : static_cast<double>(decay_iters.value_or(train_iters)) * batch;
  warmup_samples = warmup_fraction ? *warmup_fraction * decay_samples
                                   : static_cast<double>(warmup_iters) * batch;
  if (decay_style != "constant" && warmup_samples >= decay_samples)
    fail(Exit::bad_config, "--lr-warmup-iters: the warm-up of ", warmup_samples,
         " samples is not shorter than the decay of ", decay_samples);
}

double LrSchedule::at(std::int64_t consumed_samples) const {
  const auto n = static_cast<double>(consumed_samples);
  if (warmup_samples > 0 && n <= warmup_samples)
    return warmup_init + (lr - warmup_init) * n / warmup_samples;
  if (decay_style == "constant") return lr;
  if (n > decay_samples) return min_lr;
  const double r = (n - warmup_samples) / (decay_samples - warmup_samples);
  const double coefficient =
      decay_style == "linear" ? 1 - r : 0.5 * (std::cos(std::numbers::pi * r) + 1);
  return min_lr + coefficient * (lr - min_lr);
}

}  // namespace mt
