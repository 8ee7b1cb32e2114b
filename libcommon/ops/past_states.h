// Hidden states of tokens that a generation keeps (kernels/past_states.h).  x: [tokens, cols];
// states: [slots, capacity, cols];  positions, first: [tokens] i32;  slots: [sequences, runs] i32.
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

struct TokenPlaces {
  ConstTensor positions, slots;
};
void keep_states(Tensor states, ConstTensor x, const TokenPlaces& at, Stream& stream);
void states_before(Tensor x, Tensor first, ConstTensor states, const TokenPlaces& at,
                   std::int32_t least, Stream& stream);

}  // namespace mt
