// Experts with room for so many tokens (kernels/expert_capacity.h).
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// kept, expert: [tokens, chosen] i32;  weight: likewise, of the sum_dtype, or empty.
void keep_tokens(Tensor kept, ConstTensor expert, ConstTensor weight, std::int64_t experts,
                 std::int64_t capacity, Stream& stream);
// sum: [1] f64, to which the number of -1 in kept is added.
void add_dropped(Tensor sum, ConstTensor kept, Stream& stream);

}  // namespace mt
