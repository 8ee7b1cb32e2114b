#include "optim/loss_scale.h"

#include <limits>

namespace mt {

void LossScaleOptions::add_to(CommandLine& cl) {
  cl.option("--loss-scale", &loss_scale, "F", "constant factor of the loss", greater_than(0));
  cl.option("--initial-loss-scale", &initial_loss_scale, "F",
            "factor of the loss that halves when gradients overflow, and the step is skipped, and "
            "doubles when they have not for long",
            greater_than(0));
  cl.option("--min-loss-scale", &min_loss_scale, "F", "it is not halved below this",
            greater_than(0));
  cl.option("--loss-scale-window", &window, "N", "steps without overflow before it doubles",
            at_least(1));
  cl.option("--hysteresis", &hysteresis, "N", "overflows before it halves", at_least(1));
}

void LossScaleOptions::complete() const {
  if (loss_scale && initial_loss_scale)
    fail(Exit::usage, "--loss-scale and --initial-loss-scale exclude each other");
  for (const double scale : {loss_scale.value_or(1), initial_loss_scale.value_or(1)})
    if (scale > std::numeric_limits<float>::max())  // a checkpoint keeps it as one
      fail(Exit::bad_config, "a loss scale of ", scale, ": larger than fp32 can hold");
  if (initial_loss_scale && *initial_loss_scale < min_loss_scale)
    fail(Exit::bad_config, "--initial-loss-scale ", *initial_loss_scale,
         ": less than --min-loss-scale ", min_loss_scale);
}

void LossScaleOptions::take_default() {
  if (!is_given()) initial_loss_scale = 0x1p32;
}

// The scale as a checkpoint keeps it.
static double as_kept(double scale) { return static_cast<float>(scale); }

LossScaleState LossScaleOptions::start() const {
  return {.scale = as_kept(loss_scale.value_or(initial_loss_scale.value_or(1))),
          .growth = 0,
          .hysteresis = hysteresis};
}

LossScaleRule LossScaleOptions::rule() const {
  return {.dynamic = is_dynamic(),
          .least = as_kept(min_loss_scale),
          .window = window,
          .hysteresis = hysteresis};
}

}  // namespace mt
