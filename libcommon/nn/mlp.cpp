#include "nn/mlp.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

std::int64_t Mlp::activated_features() const {
  return is_gated(activation_) ? fc1_.out_features() / 2 : fc1_.out_features();
}

// dh from dy = the gradient of W_2 a + b_2.
void Mlp::activate_backward(Step& s, Tensor dh, ConstTensor dy, ConstTensor a, Tensor h) const {
  if (activation_ == Activation::gelu_tanh) return fc2_.backward(s, dh, dy, a, h);
  const ArenaScope scope(s.layer);
  const Tensor da = s.scratch(a.shape());
  fc2_.backward(s, da, dy, a);
  activation_backward(dh, da, h, activation_, s.stream);
}

void Mlp::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                  const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  if (recompute_) saved = nullptr;
  const Tensor h = s.kept(saved, {s.tokens.count(), fc1_.out_features()});
  const Tensor a = s.kept(saved, {s.tokens.count(), activated_features()});
  forward_activated(s, fc1_, activation_, a, h, x, norm);
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
    forward_activated(s, fc1_, activation_, a, h, x);
  }
  const Tensor dh = s.gradient(h.shape());
  activate_backward(s, dh, dout, a, h);
  fc1_.backward(s, dx, dh, x);
}

}  // namespace mt
