#include "nn/mlp.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

// Of those that no product takes along.
static GeluForm gelu_form(Activation a) {
  return a == Activation::gelu_quick ? GeluForm::quick : GeluForm::erf;
}

std::int64_t Mlp::activated_features() const {
  return is_gated(activation_) ? fc1_.out_features() / 2 : fc1_.out_features();
}

void Mlp::activate(Step& s, Tensor a, Tensor h, ConstTensor x, const Norm* norm) const {
  if (activation_ == Activation::gelu_tanh) return fc1_.forward_gelu(s, a, h, x, norm);
  if (activation_ == Activation::swiglu) return fc1_.forward_swiglu(s, a, h, x, norm);
  fc1_.forward(s, h, x, norm);
  if (activation_ == Activation::geglu)
    geglu_forward(a, h, s.stream);
  else if (activation_ == Activation::relu)
    relu_forward(a, h, s.stream);
  else if (activation_ == Activation::squared_relu)
    squared_relu_forward(a, h, s.stream);
  else
    gelu_forward(a, h, gelu_form(activation_), s.stream);
}

// dh from dy = the gradient of W_2 a + b_2.
void Mlp::activate_backward(Step& s, Tensor dh, ConstTensor dy, ConstTensor a, Tensor h) const {
  if (activation_ == Activation::gelu_tanh) return fc2_.backward(s, dh, dy, a, h);
  const ArenaScope scope(s.layer);
  const Tensor da = s.scratch(a.shape());
  fc2_.backward(s, da, dy, a);
  if (activation_ == Activation::swiglu)
    swiglu_backward(dh, da, h, s.stream);
  else if (activation_ == Activation::geglu)
    geglu_backward(dh, da, h, s.stream);
  else if (activation_ == Activation::relu)
    relu_backward(dh, da, h, s.stream);
  else if (activation_ == Activation::squared_relu)
    squared_relu_backward(dh, da, h, s.stream);
  else
    gelu_backward(dh, da, h, gelu_form(activation_), s.stream);
}

void Mlp::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                  const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  if (recompute_) saved = nullptr;
  const Tensor h = s.kept(saved, {s.tokens.count(), fc1_.out_features()});
  const Tensor a = s.kept(saved, {s.tokens.count(), activated_features()});
  activate(s, a, h, x, norm);
  if (saved) *saved = {h, a};
  if (!y) return;
  fc2_.forward_add(s, y, residual, a, s.dropout(hidden_dropout_, layer_, Purpose::hidden_dropout2),
                   ahead);
}

void Mlp::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout =
      dropped_gradient(s, dy, s.dropout(hidden_dropout_, layer_, Purpose::hidden_dropout2));
  Tensor h = v.h, a = v.a;
  if (recompute_) {
    h = s.scratch({s.tokens.count(), fc1_.out_features()});
    a = s.gradient({s.tokens.count(), activated_features()});
    activate(s, a, h, x);
  }
  const Tensor dh = s.gradient(h.shape());
  activate_backward(s, dh, dout, a, h);
  fc1_.backward(s, dx, dh, x);
}

}  // namespace mt
