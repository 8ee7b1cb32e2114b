// DINO's loss: kernels/view_loss.h.
#pragma once

#include "kernels/view_loss.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// ViewLoss: the loss's tensors, by the names of the kernel's.
struct ViewLoss {
  Tensor loss, student, teacher;
  ConstTensor center, sharpness, row_weight;
};
void view_loss(const ViewLoss& problem, const Views& views, Stream& stream);

}  // namespace mt
