// Experts that tokens are sent to whatever a router chooses, and those that a cache keeps
// (kernels/given_experts.h).
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// expert: [tokens, chosen] i32.  given: [sequences, width, length] i32, of which the first-th and
// following are asked for, and the tokens from first_token on.
void take_experts(Tensor expert, ConstTensor given, std::int64_t first, std::int64_t first_token,
                  Stream& stream);
// cache: [slots, capacity, ..., chosen] i32;  positions: [tokens], slots: [sequences, runs], i32.
void keep_experts(Tensor cache, ConstTensor expert, ConstTensor positions, ConstTensor slots,
                  Stream& stream);

}  // namespace mt
