// What an optimizer can be told.
#pragma once

#include "base/command.h"
#include "kernels/adam.h"

namespace mt {

struct OptimizerOptions {
  AdamOptions adam;
  double clip_grad = 1;  // largest norm of the gradient; 0: not clipped
  bool log_num_zeros_in_grad = false;

  void add_to(CommandLine& cl);
  void complete() const;  // checks what must fit together
};

}  // namespace mt
