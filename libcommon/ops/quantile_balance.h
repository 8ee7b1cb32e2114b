// Routers that choose by quantiles of their logits (kernels/quantile_balance.h).
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// keys, logits: [tokens, experts];  beta: [experts].
void quantile_keys(Tensor keys, ConstTensor logits, ConstTensor beta, Stream& stream);
// sums: [experts] f64;  chosen: experts of a token.
void add_quantiles(Tensor sums, ConstTensor logits, ConstTensor beta, std::int64_t chosen,
                   double factor, Stream& stream);

}  // namespace mt
