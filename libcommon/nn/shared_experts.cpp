#include "nn/shared_experts.h"

#include "kernels/experts.h"
#include "nn/tensor_parallel.h"
#include "nn/weight_grads.h"
#include "ops/ops.h"

namespace mt {

// A gate is a router that has one expert.
static const RouterRules kGate{.scores = RouterScores::sigmoid};

void SharedExperts::open_gate(Step& s, Saved& v, ConstTensor x, const Saved* saved) const {
  const std::int64_t tokens = s.tokens.count();
  v.logits = s.kept(saved, {s.rows(), 1});
  v.chosen = s.kept(saved, {s.rows(), 1}, DType::i32);
  v.g = s.kept_sums(saved, {tokens, 1});
  v.gated = s.kept(saved, v.a.shape());
  matmul({.out = v.logits,
          .a = x,
          .b = s.weight(*gate_),
          .transpose_b = true,
          .rows_alone = s.rows_alone()},
         s.stream);
  s.done(*gate_);
  const Tensor own = s.shares_rows() ? s.scratch_sums({s.rows(), 1}) : v.g;
  choose_experts(v.chosen, own, v.logits, {}, kGate, s.stream);
  if (s.shares_rows()) gather_rows(s, v.g, own).wait();
  scale_rows(v.gated, v.a, v.g.reshape({tokens}), s.stream);
}

SharedExperts::Saved SharedExperts::begin(Step& s, ConstTensor x, const Saved* saved) const {
  Saved v;
  v.h = s.kept(saved, {s.tokens.count(), fc1_.out_features()});
  v.a = s.kept(saved, {s.tokens.count(), fc1_.out_features() / (is_gated(activation_) ? 2 : 1)});
  forward_activated(s, fc1_, activation_, v.a, v.h, x);
  if (gate_ != nullptr) open_gate(s, v, x, saved);
  return v;
}

void SharedExperts::end(Step& s, Tensor y, ConstTensor sum, const Saved& v) const {
  fc2_.forward_add(s, y, sum, gate_ != nullptr ? v.gated : v.a, {});
}

void SharedExperts::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                             const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens.count();
  const Tensor da = s.scratch(v.a.shape()), dh = s.gradient(v.h.shape());
  fc2_.backward(s, da, dy, gate_ != nullptr ? v.gated : v.a);
  Tensor dg;
  if (gate_ != nullptr) {
    const Tensor parts = s.scratch_sums({tokens});
    row_dots(parts, da, v.a, s.stream);
    scale_rows(da, da, v.g.reshape({tokens}), s.stream);
    dg = s.scratch_sums({s.rows(), 1});
    if (s.shares_rows())
      s.tensor->reduce_scatter(dg, parts).wait();
    else
      dg = parts.reshape({tokens, 1});
  }
  activation_backward(dh, da, v.h, activation_, s.stream);
  fc1_.backward(s, dx, dh, x);
  if (gate_ == nullptr) return;
  const Tensor d_logits = s.gradient(v.logits.shape());
  choose_experts_backward(d_logits, dg, v.logits, v.chosen, kGate, s.stream);
  matmul({.out = dx, .a = d_logits, .b = s.weight(*gate_), .accumulate = true}, s.stream);
  s.done(*gate_);
  s.weight_grads.push({.weight = gate_, .dy = d_logits, .x = x}, s.stream);
}

}  // namespace mt
