// Losses of routers (kernels/router_losses.h).  The groups need not have the sizes that the tensors
// have.
#pragma once

#include "kernels/router_losses.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// counts: [groups, experts] of the sum_dtype;  expert: [rows, chosen] i32.
void count_experts(Tensor counts, ConstTensor expert, const RouterGroups& groups, Stream& stream);
// balance, square: [rows] f64;  logits: [rows, experts].
void router_losses(Tensor balance, Tensor square, ConstTensor logits, ConstTensor counts,
                   const RouterGroups& groups, Stream& stream);
// sums: [2 + experts] f64.
void add_router_sums(Tensor sums, ConstTensor balance, ConstTensor square, ConstTensor counts,
                     const RouterFactors& factors, Stream& stream);
// Adds to d_logits.  scale, weight: [1] f64, or empty.
void router_losses_backward(Tensor d_logits, ConstTensor logits, ConstTensor counts,
                            const RouterFactors& factors, ConstTensor scale, ConstTensor weight,
                            const RouterGroups& groups, Stream& stream);
// counts: [1, experts];  so_far: likewise, f64.
void mean_counts(Tensor counts, Tensor so_far, Stream& stream);

}  // namespace mt
