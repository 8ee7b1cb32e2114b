// Activation: what an MLP, or an expert, makes of W x + b.
#pragma once

#include <cstdint>

#include "nn/linear.h"

namespace mt {

enum class Activation : std::uint8_t {
  gelu_tanh,
  gelu_erf,
  gelu_quick,
  relu,
  squared_relu,
  swiglu,
  geglu,
  xielu  // an Mlp's alone
};

// Whether half of its input are gates of the other half.
inline bool is_gated(Activation a) { return a == Activation::swiglu || a == Activation::geglu; }

// a = act(h), and dh from da.
void activation_forward(Tensor a, ConstTensor h, Activation act, Stream& stream);
void activation_backward(Tensor dh, ConstTensor da, ConstTensor h, Activation act, Stream& stream);

// h = fc1(x), or fc1 of its norm, and a = act(h).
void forward_activated(Step& s, const Linear& fc1, Activation act, Tensor a, Tensor h,
                       ConstTensor x, const Norm* norm = nullptr);

}  // namespace mt
