// What a model learns of its teacher (kernels/distill_loss.h, kernels/hidden_loss.h).
#pragma once

#include "kernels/distill_loss.h"
#include "kernels/hidden_loss.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// The columns from `first` on of a vocabulary of `vocab`: logits, which become their gradient where
// there is a weight, and a teacher's, [rows, cols]; sums, [6, rows], then [ranks, 6, rows] of all
// who hold columns; parts, [2, rows], then their sums; loss and weight [2, rows].
struct DistillPart {
  Tensor logits;
  ConstTensor taught, labels, sums = {};
  std::int64_t first = 0, vocab = 0;
  Distance distance;
};
void distill_sums(Tensor sums, const DistillPart& part, Stream& stream);
void distill_parts(Tensor parts, const DistillPart& part, Stream& stream);
void distill_gradient(Tensor loss, ConstTensor weight, ConstTensor parts, const DistillPart& part,
                      Stream& stream);

// loss, weight: [rows]; x, taught: [rows, cols].  dx, which may be empty, is added to.
void hidden_loss(Tensor loss, Tensor dx, ConstTensor x, ConstTensor taught, ConstTensor weight,
                 HiddenLoss kind, Stream& stream);

}  // namespace mt
