#include "nn/activation.h"

#include "ops/ops.h"

namespace mt {

static GeluForm gelu_form(Activation act) {
  return act == Activation::gelu_quick  ? GeluForm::quick
         : act == Activation::gelu_tanh ? GeluForm::tanh
                                        : GeluForm::erf;
}

void activation_forward(Tensor a, ConstTensor h, Activation act, Stream& stream) {
  if (act == Activation::swiglu)
    swiglu_forward(a, h, stream);
  else if (act == Activation::geglu)
    geglu_forward(a, h, stream);
  else if (act == Activation::relu)
    relu_forward(a, h, stream);
  else if (act == Activation::squared_relu)
    squared_relu_forward(a, h, stream);
  else
    gelu_forward(a, h, gelu_form(act), stream);
}

void activation_backward(Tensor dh, ConstTensor da, ConstTensor h, Activation act, Stream& stream) {
  if (act == Activation::swiglu)
    swiglu_backward(dh, da, h, stream);
  else if (act == Activation::geglu)
    geglu_backward(dh, da, h, stream);
  else if (act == Activation::relu)
    relu_backward(dh, da, h, stream);
  else if (act == Activation::squared_relu)
    squared_relu_backward(dh, da, h, stream);
  else
    gelu_backward(dh, da, h, gelu_form(act), stream);
}

void forward_activated(Step& s, const Linear& fc1, Activation act, Tensor a, Tensor h,
                       ConstTensor x, const Norm* norm) {
  if (act == Activation::gelu_tanh) return fc1.forward_gelu(s, a, h, x, norm);
  if (act == Activation::swiglu) return fc1.forward_swiglu(s, a, h, x, norm);
  fc1.forward(s, h, x, norm);
  activation_forward(a, h, act, s.stream);
}

}  // namespace mt
