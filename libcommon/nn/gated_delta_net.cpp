#include "nn/gated_delta_net.h"

#include <array>

#include "nn/context_parallel.h"
#include "nn/kv_cache.h"
#include "ops/delta.h"
#include "ops/ops.h"

namespace mt {

DeltaShape GatedDeltaNet::shape(const Step& s) const {
  DeltaShape shape = options_.shape;
  shape.sequences = s.tokens.sequences;
  shape.length = s.tokens.length;
  return shape;
}

Dropout GatedDeltaNet::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.layer, Purpose::hidden_dropout1);
}

static std::array<const Param*, 4> all(const GatedDeltaNet::Params& p) {
  return {p.conv_weight, p.dt_bias, p.a_log, p.norm};
}

void GatedDeltaNet::done(Step& s) const {
  for (const Param* const param : all(params_)) s.done(*param);
}

// Where a gradient is added: a frozen parameter's is thrown away.
Tensor GatedDeltaNet::gradient_of(Step& s, const Param& param) const {
  return param.trainable ? s.gradient_of(param) : s.layer.alloc(sum_dtype(s.dtype), param.local);
}

DeltaParams GatedDeltaNet::params(const Step& s) const {
  return {s.weight(*params_.dt_bias), s.weight(*params_.a_log)};
}

// What the sequences have in a cache, which is the convolution's or the rule's.
static SequencePast past_in(const Step& s, const Tensor& cache) {
  return {.cache = cache,
          .positions = s.tokens.positions,
          .slots = s.past.slots,
          .slot = s.past.slot.value_or(0)};
}

void GatedDeltaNet::forward(Step& s, Tensor out, ConstTensor residual, ConstTensor x, Saved* saved,
                            const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const DeltaShape of = shape(s);
  const Saved made{.projected = s.kept(saved, {of.tokens(), of.projected()}),
                   .y = s.kept(saved, {of.tokens(), of.values()}),
                   .rstd = s.kept_sums(saved, {of.tokens(), of.value_heads})};
  in_.forward(s, made.projected, x, norm);
  SequencePast of_conv, of_rule;
  if (s.past.cache != nullptr) {
    of_conv = past_in(s, s.past.cache->convolved(options_.layer));
    of_rule = past_in(s, s.past.cache->states(options_.layer));
  }
  const Tensor mixed = s.scratch({of.tokens(), of.mixed()});
  causal_conv_forward(mixed, made.projected, s.weight(*params_.conv_weight), s.tokens.first_key,
                      of_conv, of, s.stream);
  delta_rule_forward(made.y, mixed, made.projected, params(s), s.tokens.first_key, of_rule, of,
                     s.stream);
  const Tensor normed = s.scratch(made.y.shape());
  delta_norm_forward(normed, made.rstd, made.y, made.projected, s.weight(*params_.norm),
                     options_.norm, of, s.stream);
  done(s);
  if (saved) *saved = made;
  if (out) out_.forward_add(s, out, residual, normed, hidden_dropout(s), ahead);
}

void GatedDeltaNet::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                             const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const DeltaShape of = shape(s);
  const Tensor normed = s.gradient(v.y.shape()), d_projected = s.gradient(v.projected.shape()),
               d_normed = s.scratch(v.y.shape()), d_y = s.scratch(v.y.shape());
  const ConstTensor scale = s.weight(*params_.norm), w = s.weight(*params_.conv_weight);
  delta_norm_forward(normed, v.rstd, v.y, v.projected, scale, options_.norm, of, s.stream);
  out_.backward(s, d_normed, dout, normed);
  delta_norm_backward(d_y, d_projected, gradient_of(s, *params_.norm), d_normed, v.y, v.projected,
                      v.rstd, scale, options_.norm, of, s.stream);
  const Tensor mixed = s.scratch({of.tokens(), of.mixed()}), d_mixed = s.scratch(mixed.shape());
  causal_conv_forward(mixed, v.projected, w, s.tokens.first_key, {}, of, s.stream);
  delta_rule_backward(
      d_mixed, d_projected,
      {.dt_bias = gradient_of(s, *params_.dt_bias), .a_log = gradient_of(s, *params_.a_log)}, d_y,
      mixed, v.projected, params(s), s.tokens.first_key, of, s.stream);
  causal_conv_backward(d_projected, gradient_of(s, *params_.conv_weight), d_mixed, v.projected, w,
                       s.tokens.first_key, of, s.stream);
  done(s);
  in_.backward(s, dx, d_projected, x);
}

}  // namespace mt
