// Experts: MLPs of which each token goes to a few, in the place of an Mlp, and the residual around
// them (Jiang et al.: arXiv:2401.04088, section 2.1).
//   y = residual + dropout(sum over the chosen e of p_e W_2e swiglu(W_1e x))
// where p is the softmax of the logits W_r x of the chosen, which are the largest.  No token is
// dropped.  x, y, residual: [tokens, hidden_size].  For the CPU, where one rank has all experts.
#pragma once

#include "nn/norm.h"

namespace mt {

class Experts {
 public:
  struct Saved {
    Route route;
    Tensor x, h, a, weighed;  // by experts: W_1 x, its swiglu, and that times p
  };
  struct Expert {
    const Param *fc1, *fc2;
  };
  // layer: as of Mlp.
  Experts(const Param& router, std::vector<Expert> experts, std::int64_t chosen, std::int64_t layer,
          double hidden_dropout)
      : router_(&router),
        experts_(std::move(experts)),
        chosen_(chosen),
        layer_(layer),
        hidden_dropout_(hidden_dropout) {}

  ConstTensor first_weight() const { return router_->value; }  // not to be multiplied with

  // y empty: not wanted.  With a norm, x is its input.
  void forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
               const Norm* norm = nullptr, ConstTensor ahead = {}) const;
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Saved& saved) const;  // without the residual

 private:
  std::int64_t ffn() const { return experts_[0].fc2->shape[1]; }
  // body(expert, its first row, its last + 1) of those that have any.
  template <class Body>
  void for_each(Step& s, const Route& route, const Body& body) const;

  const Param* router_;
  std::vector<Expert> experts_;
  std::int64_t chosen_, layer_;
  double hidden_dropout_;
};

}  // namespace mt
