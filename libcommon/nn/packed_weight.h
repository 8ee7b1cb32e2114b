// Weights that are held in four bits a number (kernels/nf4.h), frozen, and unpacked for each
// product that they are part of.  Queries, keys and values, and gates, have scales of their own, as
// the layers of other libraries that they are have.
//
// Tensor-parallel ranks share the bytes of the whole weight: each has the codes of its part, and
// all scales.
#pragma once

#include <functional>

#include "nn/step.h"

namespace mt {

// Has the frozen weights of linear layers packed at the places of which this is true.  Before they
// are allocated.  Exit::bad_config, with its name, where rows of a rank's part are not whole
// blocks.
void pack_weights(ParamTable& table, const std::function<bool(const RowPlace&)>& is_packed);

// What a row's part becomes, packed as is its value, on the host.  whole: all of the weight, f32.
void pack(const Param& row, ConstTensor whole, Tensor packed);
// Rounds all of a weight, f32 on the host, to what becomes of it.
void round_packed(const Param& row, Tensor whole);

// The weight to multiply with, in `layer` where it is packed.
ConstTensor unpacked(Step& s, const Param& weight);

}  // namespace mt
