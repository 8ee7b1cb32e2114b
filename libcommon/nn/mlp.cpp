#include "nn/mlp.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"
#include "ops/xielu.h"

namespace mt {

std::int64_t Mlp::activated_features() const {
  return is_gated(activation_) ? fc1_.out_features() / 2 : fc1_.out_features();
}

static XieluTensors tensors_of(const Step& s, const Mlp::Slopes& slopes) {
  return {s.weight(*slopes.alpha_p), s.weight(*slopes.alpha_n), s.weight(*slopes.beta),
          s.weight(*slopes.eps)};
}

// h = W_1 x + b_1, or of its norm, and a = act(h).
void Mlp::activate(Step& s, Tensor a, Tensor h, ConstTensor x, const Norm* norm) const {
  if (!slopes_) return forward_activated(s, fc1_, activation_, a, h, x, norm);
  fc1_.forward(s, h, x, norm);
  xielu_forward(a, h, tensors_of(s, *slopes_), s.stream);
  for (const Param* const slope : {slopes_->alpha_p, slopes_->alpha_n}) s.done(*slope);
}

void Mlp::slopes_backward(Step& s, Tensor dh, ConstTensor da, ConstTensor h) const {
  const auto gradient = [&](const Param& slope) {
    return slope.trainable ? s.gradient_of(slope) : Tensor();
  };
  xielu_backward(dh, gradient(*slopes_->alpha_p), gradient(*slopes_->alpha_n), da, h,
                 tensors_of(s, *slopes_), s.stream);
  for (const Param* const slope : {slopes_->alpha_p, slopes_->alpha_n}) s.done(*slope);
}

// dh from dy = the gradient of W_2 a + b_2.
void Mlp::activate_backward(Step& s, Tensor dh, ConstTensor dy, ConstTensor a, Tensor h) const {
  if (activation_ == Activation::gelu_tanh) return fc2_.backward(s, dh, dy, a, h);
  const ArenaScope scope(s.layer);
  const Tensor da = s.scratch(a.shape());
  fc2_.backward(s, da, dy, a);
  if (slopes_) return slopes_backward(s, dh, da, h);
  activation_backward(dh, da, h, activation_, s.stream);
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
