#include "optim/optimizer_options.h"

namespace mt {

void OptimizerOptions::add_to(CommandLine& cl) {
  cl.section("Optimizer");
  cl.option("--adam-beta1", &adam.beta1, "F", "decay of the first moment", between(0, 1));
  cl.option("--adam-beta2", &adam.beta2, "F", "decay of the second moment", between(0, 1));
  cl.option("--adam-eps", &adam.eps, "F", "added to the root of the second moment", at_least(0));
  cl.option("--clip-grad", &clip_grad, "F", "largest norm of the gradient; 0: not clipped",
            at_least(0));
  cl.flag("--log-num-zeros-in-grad", &log_num_zeros_in_grad,
          "log how many elements of the gradient are zero");
}

void OptimizerOptions::complete() const {
  if (adam.beta1 >= 1 || adam.beta2 >= 1)
    fail(Exit::bad_config, "--adam-beta1 ", adam.beta1, ", --adam-beta2 ", adam.beta2,
         ": expected less than 1");
}

}  // namespace mt
