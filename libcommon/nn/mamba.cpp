#include "nn/mamba.h"

#include <array>

#include "nn/context_parallel.h"
#include "nn/kv_cache.h"
#include "ops/mamba.h"
#include "ops/ops.h"

namespace mt {

MambaShape Mamba::shape(const Step& s) const {
  MambaShape shape = options_.shape;
  shape.sequences = s.tokens.sequences;
  shape.length = s.tokens.length;
  return shape;
}

Dropout Mamba::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.layer, Purpose::hidden_dropout1);
}

// What the sequences have in a cache, which is the convolution's or the scan's.
static SequencePast past_in(const Step& s, const Tensor& cache) {
  return {.cache = cache,
          .positions = s.tokens.positions,
          .slots = s.past.slots,
          .slot = s.past.slot.value_or(0)};
}

// Returns the rows of `mixed`, which are in `layer`.
Tensor Mamba::convolve(Step& s, ConstTensor projected, const SequencePast& past) const {
  const Tensor mixed = s.scratch({projected.shape()[0], options_.shape.mixed()});
  causal_conv_forward(mixed, projected, s.weight(*params_.conv_weight),
                      s.weight(*params_.conv_bias), s.tokens.first_key, past, shape(s), s.stream);
  return mixed;
}

void Mamba::gate(Step& s, Tensor normed, Tensor rstd, ConstTensor y, ConstTensor projected) const {
  gated_norm_forward(normed, rstd, y, projected, s.weight(*params_.norm), options_.norm_epsilon,
                     shape(s), s.stream);
}

static std::array<const Param*, 6> all(const Mamba::Params& p) {
  return {p.conv_weight, p.conv_bias, p.dt_bias, p.a_log, p.d, p.norm};
}

// Where a gradient is added: a frozen parameter's is thrown away, and is of the type that the
// others' gradients have.
Tensor Mamba::gradient_of(Step& s, const Param& param) const {
  if (param.trainable) return s.gradient_of(param);
  DType dtype = sum_dtype(s.dtype);
  for (const Param* const other : all(params_))
    if (other->trainable) dtype = other->grad.dtype();
  return s.layer.alloc(dtype, param.local);
}

static ScanParams scan_params(const Step& s, const Mamba::Params& p) {
  return {s.weight(*p.dt_bias), s.weight(*p.a_log), s.weight(*p.d)};
}

void Mamba::forward(Step& s, Tensor out, ConstTensor residual, ConstTensor x, Saved* saved,
                    const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens.count();
  const MambaShape& of = options_.shape;
  const Saved made{.projected = s.kept(saved, {tokens, of.projected()}),
                   .y = s.kept(saved, {tokens, of.inner()}),
                   .rstd = s.kept_sums(saved, {tokens, of.groups})};
  in_.forward(s, made.projected, x, norm);
  SequencePast of_conv, of_scan;
  if (s.past.cache != nullptr) {
    of_conv = past_in(s, s.past.cache->convolved(options_.layer));
    of_scan = past_in(s, s.past.cache->states(options_.layer));
  }
  const Tensor mixed = convolve(s, made.projected, of_conv);
  chunk_scan_forward(made.y, mixed, made.projected, scan_params(s, params_), s.tokens.first_key,
                     of_scan, shape(s), s.stream);
  const Tensor normed = s.scratch(made.y.shape());
  gate(s, normed, made.rstd, made.y, made.projected);
  for (const Param* const param : all(params_)) s.done(*param);
  if (saved) *saved = made;
  if (out) out_.forward_add(s, out, residual, normed, hidden_dropout(s), ahead);
}

void Mamba::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const MambaShape of = shape(s);
  const Tensor normed = s.gradient(v.y.shape()), d_projected = s.gradient(v.projected.shape()),
               d_normed = s.scratch(v.y.shape()), d_y = s.scratch(v.y.shape());
  gate(s, normed, v.rstd, v.y, v.projected);
  out_.backward(s, d_normed, dout, normed);
  gated_norm_backward(d_y, d_projected, gradient_of(s, *params_.norm), d_normed, v.y, v.projected,
                      v.rstd, s.weight(*params_.norm), of, s.stream);
  const Tensor mixed = convolve(s, v.projected, {}), d_mixed = s.scratch(mixed.shape());
  chunk_scan_backward(d_mixed, d_projected,
                      {.dt_bias = gradient_of(s, *params_.dt_bias),
                       .a_log = gradient_of(s, *params_.a_log),
                       .d = gradient_of(s, *params_.d)},
                      d_y, mixed, v.projected, scan_params(s, params_), s.tokens.first_key, of,
                      s.stream);
  causal_conv_backward(d_projected, gradient_of(s, *params_.conv_weight),
                       gradient_of(s, *params_.conv_bias), d_mixed, v.projected,
                       s.weight(*params_.conv_weight), s.weight(*params_.conv_bias),
                       s.tokens.first_key, of, s.stream);
  for (const Param* const param : all(params_)) s.done(*param);
  in_.backward(s, dx, d_projected, x);
}

}  // namespace mt
