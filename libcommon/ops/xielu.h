// Operations of an activation with slopes that are learned (kernels/xielu.h), on CPUs.
#pragma once

#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

struct XieluTensors {
  ConstTensor alpha_p, alpha_n, beta, eps;  // [1]
};
void xielu_forward(Tensor y, ConstTensor x, const XieluTensors& of, Stream& stream);
// The alphas' gradients are added to; an empty one is not wanted.  dx may be dy.
void xielu_backward(Tensor dx, Tensor d_alpha_p, Tensor d_alpha_n, ConstTensor dy, ConstTensor x,
                    const XieluTensors& of, Stream& stream);

}  // namespace mt
