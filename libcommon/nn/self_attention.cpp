#include "nn/self_attention.h"

#include <span>

#include "nn/context_parallel.h"
#include "ops/delta.h"
#include "ops/ops.h"

namespace mt {

Keys SelfAttention::keys(Step& s) const {
  const std::int64_t count = s.past.cache != nullptr ? s.past.longest : s.tokens.length;
  return {.causal = s.tokens.causal,
          .window = options_.window,
          .first_key = s.tokens.first_key,
          .lengths = s.past.cache != nullptr ? s.past.lengths : s.tokens.lengths,
          .bias = options_.bias ? options_.bias->forward(s, count) : Tensor()};
}

Dropout SelfAttention::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.core.layer, Purpose::hidden_dropout1);
}

// The heads of a projection's rows, values included.
Tensor SelfAttention::all_heads(const Tensor& rows) const {
  const std::int64_t head_dim = options_.core.head_dim;
  return rows.reshape({rows.shape()[0], rows.shape()[1] / head_dim, head_dim});
}

// Runs of tokens that follow each other turn at once.
void SelfAttention::turn_past(Step& s, Tensor x) const {
  const auto turn_run = [&](std::int64_t begin, std::int64_t end, std::int64_t first_position) {
    rope(x.rows(begin, end),
         {.inv_freq = options_.inv_freq,
          .interleaved = options_.rotary_interleaved,
          .seq_length = end - begin,
          .magnitude = options_.rotary_magnitude,
          .first_position = first_position},
         false, s.stream);
  };
  if (x.device() == Device::meta) return turn_run(0, s.tokens.count(), 0);
  if (x.device() != Device::cpu)
    fail(Exit::bad_config, "--qk-layernorm-behind-rope: generates on the CPU alone; --device cpu");
  const std::span positions = s.tokens.positions.span<std::int32_t>();
  for (std::size_t begin = 0, end = 0; begin < positions.size(); begin = end) {
    for (end = begin + 1; end < positions.size() && positions[end] == positions[end - 1] + 1;)
      ++end;
    turn_run(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), positions[begin]);
  }
}

// x: queries, keys, or, packed, all heads.  A cache turns what it takes, unless norms are behind.
void SelfAttention::turn(Step& s, Tensor x, bool inverse) const {
  if (!options_.inv_freq) return;
  if (s.past.cache != nullptr) {
    if (options_.norms_behind) turn_past(s, x);
    return;
  }
  turn_tokens(s, x,
              {.inv_freq = options_.inv_freq,
               .interleaved = options_.rotary_interleaved,
               .seq_length = s.tokens.length,
               .packed_group = packed(s) ? options_.core.heads / options_.core.kv_heads + 2 : 0,
               .magnitude = options_.rotary_magnitude},
              inverse);
}

// What a norm takes as rows of [tokens, heads, head_dim].
static Shape rows_of_norm(const Shape& x, bool whole) {
  return whole ? Shape{x[0], x[1] * x[2]} : Shape{x[0] * x[1], x[2]};
}

// [tokens, heads, head_dim] -> [tokens, channels]
static Tensor joined(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads.reshape({shape[0], shape[1] * shape[2]});
}

// Of queries and their gates.
static Shape with_gates(const Shape& heads) { return {heads[0], 2 * heads[1], heads[2]}; }

void SelfAttention::norm_heads(Step& s, Tensor y, const HeadNorm& norm, const Tensor& x,
                               Norm::Saved* saved) const {
  const Shape rows = rows_of_norm(y.shape(), options_.norms_of_all);
  norm.norm.forward(s, y.reshape(rows), x.reshape(rows), saved);
  if (norm.weights == nullptr) return;
  scale_columns(joined(y), joined(y), s.weight(*norm.weights), s.stream);
  s.done(*norm.weights);
}

// Returns the gradient of raw.x; dy is overwritten.
Tensor SelfAttention::norm_heads_backward(Step& s, Tensor dy, const HeadNorm& norm,
                                          const Raw& raw) const {
  const Tensor dx = s.scratch(dy.shape());
  const Shape rows = rows_of_norm(dy.shape(), options_.norms_of_all);
  if (norm.weights != nullptr) {
    if (norm.weights->trainable) {
      const ArenaScope scope(s.layer);
      const Tensor product = s.scratch(dy.shape());
      norm.norm.forward(s, product.reshape(rows), raw.x.reshape(rows), nullptr);
      multiply(product, product, dy, s.stream);
      column_sum(s.gradient_of(*norm.weights), joined(product), s.stream);
    }
    scale_columns(joined(dy), joined(dy), s.weight(*norm.weights), s.stream);
    s.done(*norm.weights);
  }
  norm.norm.backward(s, dx.reshape(rows), dy.reshape(rows), raw.x.reshape(rows), raw.norm);
  return dx;
}

// y = rope(norm(x)): of queries or of keys; without a norm y is x.  Or, behind, y = norm(rope(x)),
// and x turns.
void SelfAttention::norm_and_turn(Step& s, Tensor y, const std::optional<HeadNorm>& norm, Tensor x,
                                  Norm::Saved* saved) const {
  if (options_.norms_behind) {
    turn(s, x, false);
    return norm_heads(s, y, *norm, x, saved);
  }
  if (norm) norm_heads(s, y, *norm, x, saved);
  turn(s, y, false);
}

// Returns the gradient of raw.x; dy is overwritten.
Tensor SelfAttention::norm_and_turn_backward(Step& s, Tensor dy,
                                             const std::optional<HeadNorm>& norm,
                                             const Raw& raw) const {
  if (!options_.norms_behind) turn(s, dy, true);
  if (!norm) return dy;
  const Tensor dx = norm_heads_backward(s, dy, *norm, raw);
  if (options_.norms_behind) turn(s, dx, true);
  return dx;
}

// The projection's rows, between the bounds if there are.
void SelfAttention::make_rows(Step& s, Tensor rows, ConstTensor x, const Norm* norm,
                              const Saved* saved, Saved& made) const {
  if (options_.clip == 0) return qkv_.forward(s, rows, x, norm);
  made.unclipped = s.kept(saved, rows.shape());
  qkv_.forward(s, made.unclipped, x, norm);
  clamp_forward(rows, made.unclipped, options_.clip, s.stream);
}

// Queries, keys and values for the core, and what their norms were given.
SelfAttention::Saved SelfAttention::project(Step& s, ConstTensor x, const Saved* saved,
                                            const Norm* norm) const {
  const AttentionCore::Options& core = options_.core;
  const auto room = [&](const Shape& shape) { return s.kept(saved, shape); };
  const Shape rows{s.tokens.count(), qkv_.out_features()};
  Saved made;
  Qkv& heads = made.heads;
  if (packed(s)) {
    heads.q = room(rows);
    make_rows(s, heads.q, x, norm, saved, made);
    turn(s, all_heads(heads.q), false);
    return made;
  }
  heads.q = room({s.tokens.count(), core.heads, core.head_dim});
  heads.k = room({s.tokens.count(), core.kv_heads, core.head_dim});
  heads.v = room(heads.k.shape());
  made.q.x = norms_.q ? room(heads.q.shape()) : heads.q;
  made.k.x = norms_.k ? room(heads.k.shape()) : heads.k;
  if (options_.gated) made.gate = room(heads.q.shape());
  const ArenaScope scope(s.layer);
  const Tensor qkv = s.scratch(rows);
  make_rows(s, qkv, x, norm, saved, made);
  if (options_.gated) {
    const Tensor both = s.scratch(with_gates(heads.q.shape()));
    qkv_split(both, made.k.x, heads.v, qkv, s.stream);
    split_gates(made.q.x, made.gate, both, core.kv_heads, s.stream);
  } else {
    qkv_split(made.q.x, made.k.x, heads.v, qkv, s.stream);
  }
  norm_and_turn(s, heads.q, norms_.q, made.q.x, saved ? &made.q.norm : nullptr);
  norm_and_turn(s, heads.k, norms_.k, made.k.x, saved ? &made.k.norm : nullptr);
  return made;
}

// Returns the gradient of the projection's rows, which its weight gradient reads.
Tensor SelfAttention::projection_gradient(Step& s, ConstTensor d_o, const Tensor& d_gate,
                                          const AttentionCore::Saved& found, const Saved& v,
                                          const Keys& keys) const {
  const Shape rows{s.tokens.count(), qkv_.out_features()};
  if (packed(s)) {
    const Tensor dqkv = s.gradient(rows);
    core_.backward(s, {.q = dqkv, .k = {}, .v = {}}, d_o, found, v.heads, keys);
    turn(s, all_heads(dqkv), true);
    if (options_.clip > 0) clamp_backward(dqkv, dqkv, v.unclipped, options_.clip, s.stream);
    return dqkv;
  }
  const Qkv d{s.scratch(v.heads.q.shape()), s.scratch(v.heads.k.shape()),
              s.scratch(v.heads.v.shape())};
  core_.backward(s, d, d_o, found, v.heads, keys);
  const Tensor dq = norm_and_turn_backward(s, d.q, norms_.q, v.q);
  const Tensor dk = norm_and_turn_backward(s, d.k, norms_.k, v.k);
  const Tensor dqkv = s.gradient(rows);
  if (options_.gated) {
    const Tensor both = s.scratch(with_gates(dq.shape()));
    merge_gates(both, dq, d_gate, options_.core.kv_heads, s.stream);
    qkv_merge(dqkv, both, dk, d.v, s.stream);
  } else {
    qkv_merge(dqkv, dq, dk, d.v, s.stream);
  }
  if (options_.clip > 0) clamp_backward(dqkv, dqkv, v.unclipped, options_.clip, s.stream);
  return dqkv;
}

void SelfAttention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                            const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  Saved made = project(s, x, saved, norm);
  const Tensor o = core_.forward(s, made.heads, keys(s), saved ? &made.core : nullptr);
  if (saved) *saved = made;
  if (!y) return;
  const Tensor gated = options_.gated ? s.scratch(o.shape()) : o;
  if (options_.gated) output_gate_forward(gated, o, made.gate, s.stream);
  proj_.forward_add(s, y, residual, joined(gated), hidden_dropout(s), ahead);
}

void SelfAttention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                             const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const Keys seen = keys(s);
  const AttentionCore::Saved found = core_.found(s, v.heads, seen, v.core);
  const Tensor d_o = s.scratch(found.o.shape());
  const Tensor gated = options_.gated ? s.gradient(found.o.shape()) : found.o,
               d_gate = options_.gated ? s.scratch(d_o.shape()) : Tensor();
  if (options_.gated) output_gate_forward(gated, found.o, v.gate, s.stream);
  proj_.backward(s, joined(d_o), dout, joined(gated));
  if (options_.gated) output_gate_backward(d_o, d_gate, d_o, found.o, v.gate, s.stream);
  if (options_.bias && options_.bias->is_trainable())
    options_.bias->backward(s, core_.bias_gradient(s, d_o, found, v.heads, seen));
  qkv_.backward(s, dx, projection_gradient(s, d_o, d_gate, found, v, seen), x);
}

}  // namespace mt
