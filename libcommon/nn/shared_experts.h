// SharedExperts: an MLP that all tokens go to beside those that they choose (DeepSeek-AI:
// arXiv:2401.06066, section 3.2).
//   y = sum + g W_2 act(W_1 x)
// where g is sigmoid(w_g x) if there is a gate, else 1.  x, y, sum: [rows, hidden_size].  Ranks
// share its matrices as those of an Mlp.
#pragma once

#include "nn/activation.h"

namespace mt {

class SharedExperts {
 public:
  struct Saved {
    Tensor h, a;                      // W_1 x and its activation, of all tokens
    Tensor logits, chosen, g, gated;  // of a gate: of this rank's rows, and g and g a of all tokens
  };
  SharedExperts(const Linear& fc1, const Linear& fc2, const Param* gate, Activation activation)
      : fc1_(fc1), fc2_(fc2), gate_(gate), activation_(activation) {}

  // The forward in two parts, of which the first needs no sum.  y is not sum.
  Saved begin(Step& s, ConstTensor x, const Saved* saved) const;
  void end(Step& s, Tensor y, ConstTensor sum, const Saved& v) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& saved) const;

 private:
  void open_gate(Step& s, Saved& v, ConstTensor x, const Saved* saved) const;

  Linear fc1_, fc2_;
  const Param* gate_;  // or null
  Activation activation_;
};

}  // namespace mt
