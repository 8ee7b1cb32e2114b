// Losses of texts that a policy wrote (kernels/policy_loss.h).
#pragma once

#include "kernels/policy_loss.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// loss: [kPolicyRows, tokens]; x, advantage, mask, weight: [tokens]; others: [3 tokens], of each
// row by itself; lengths: [rows texts] i32 of so many rows of tokens.  x becomes its gradient
// unless weight is empty.
struct PolicyProblem {
  Tensor loss, x;
  ConstTensor others, advantage, mask, lengths, weight = {};
  std::int64_t rows = 1;
};
void policy_loss(const PolicyProblem& problem, const PolicyRules& rules, Stream& stream);

}  // namespace mt
