// Losses of what is said of tokens' values (kernels/value_loss.h).
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// loss: [2, tokens]; x, mask, weight: [tokens]; returns: [2 tokens], of each row by itself.  x
// becomes its gradient unless weight is empty.
struct ValueProblem {
  Tensor loss, x;
  ConstTensor returns, mask, weight = {};
  std::int64_t rows = 1;
};
void value_loss(const ValueProblem& problem, double clip, Stream& stream);

}  // namespace mt
