#include "nn/attention.h"

#include <cmath>

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

static AttentionShape attention_shape(const Step& s, const AttentionOptions& options) {
  return {.sequences = s.sequences,
          .q_length = s.seq_length,
          .kv_length = s.seq_length,
          .kv_stride = s.seq_length,
          .heads = options.heads,
          .kv_heads = options.kv_heads,
          .head_dim = options.head_dim,
          .first_head = options.first_head,
          .window = options.window,
          .scale = 1 / std::sqrt(static_cast<double>(options.head_dim))};
}

bool Attention::packed(const Step& s) const {
  return !norms_ && (s.context == nullptr || s.context->comm(options_.layer) == ContextComm::a2a);
}

// The heads of a projection's rows, values included.
Tensor Attention::all_heads(const Tensor& rows) const {
  return rows.reshape({rows.shape()[0], options_.heads + 2 * options_.kv_heads, options_.head_dim});
}

// x: queries, keys, or, packed, all heads.
void Attention::turn(Step& s, Tensor x, bool inverse) const {
  if (!options_.inv_freq) return;
  turn_tokens(s, x,
              {.inv_freq = options_.inv_freq,
               .interleaved = options_.rotary_interleaved,
               .seq_length = s.seq_length,
               .packed_group = packed(s) ? options_.heads / options_.kv_heads + 2 : 0},
              inverse);
}

static Shape rows_of_heads(const Shape& x) { return {x[0] * x[1], x[2]}; }

// y = rope(norm(x)): of queries or of keys; without a norm y is x.
void Attention::norm_and_turn(Step& s, Tensor y, Tensor x, const Norm* norm,
                              Norm::Saved* saved) const {
  const Shape rows = rows_of_heads(x.shape());
  if (norm) norm->forward(s, y.reshape(rows), x.reshape(rows), saved);
  turn(s, y, false);
}

// Returns dx; dy is overwritten.
Tensor Attention::norm_and_turn_backward(Step& s, Tensor dy, Tensor x, const Norm* norm,
                                         const Norm::Saved& saved) const {
  turn(s, dy, true);
  if (!norm) return dy;
  const Tensor dx = s.scratch(x.shape());
  const Shape rows = rows_of_heads(x.shape());
  norm->backward(s, dx.reshape(rows), dy.reshape(rows), x.reshape(rows), saved);
  return dx;
}

// The norms of queries and keys, where there are any, in the projection's rows.
void Attention::norm_heads(Step& s, Tensor qkv) const {
  if (!norms_) return;
  const ArenaScope scope(s.layer);
  const Tensor raw_q = s.scratch({s.tokens(), options_.heads, options_.head_dim});
  const Tensor raw_k = s.scratch({s.tokens(), options_.kv_heads, options_.head_dim});
  const Tensor q = s.scratch(raw_q.shape()), k = s.scratch(raw_k.shape());
  const Tensor v = s.scratch(k.shape());
  qkv_split(raw_q, raw_k, v, qkv, s.stream);
  const Shape rows_q = rows_of_heads(q.shape()), rows_k = rows_of_heads(k.shape());
  norms_->q.forward(s, q.reshape(rows_q), raw_q.reshape(rows_q), nullptr);
  norms_->k.forward(s, k.reshape(rows_k), raw_k.reshape(rows_k), nullptr);
  qkv_merge(qkv, q, k, v, s.stream);
}

// All sequences in one go, each over its own keys: it is computed as if it were alone.
void Attention::attend_past(Step& s, Tensor o, Tensor lse, Tensor qkv) const {
  norm_heads(s, qkv);
  const CachedPast& past = s.past;
  Tensor keys = past.cache->keys(options_.layer), values = past.cache->values(options_.layer);
  if (past.slot) {
    keys = keys.rows(*past.slot, *past.slot + 1);
    values = values.rows(*past.slot, *past.slot + 1);
  }
  const ArenaScope scope(s.layer);
  AttentionShape attended = attention_shape(s, options_);
  attended.kv_length = past.longest;
  attended.kv_stride = keys.shape()[1];
  if (!past.slot) {
    attended.kv_lengths = past.lengths.as<std::int32_t>();
    attended.kv_slots = past.slots.as<std::int32_t>();
  }
  cached_attention({.o = o,
                    .keys = keys,
                    .values = values,
                    .q = s.scratch(o.shape()),
                    .lse = lse,
                    .qkv = qkv,
                    .positions = s.positions,
                    .slots = past.slots,
                    .angles = past.angles,
                    .first_key = s.first_key,
                    .interleaved = options_.rotary_interleaved,
                    .shape = attended},
                   s.stream);
}

// Queries, keys and values for the kernels, and what their norms were given.
Attention::Saved Attention::project(Step& s, ConstTensor x, Saved* saved, const Norm* norm) const {
  const std::int64_t tokens = s.tokens();
  const Shape rows{tokens, qkv_.out_features()};
  Saved made;
  if (packed(s)) {
    made.q = s.kept(saved, rows);
    qkv_.forward(s, made.q, x, norm);
    turn(s, all_heads(made.q), false);
    return made;
  }
  made.q = s.kept(saved, {tokens, options_.heads, options_.head_dim});
  made.k = s.kept(saved, {tokens, options_.kv_heads, options_.head_dim});
  made.v = s.kept(saved, made.k.shape());
  if (norms_) {
    made.raw_q = s.kept(saved, made.q.shape());
    made.raw_k = s.kept(saved, made.k.shape());
  }
  const Tensor raw_q = norms_ ? made.raw_q : made.q, raw_k = norms_ ? made.raw_k : made.k;
  const ArenaScope scope(s.layer);
  const Tensor qkv = s.scratch(rows);
  qkv_.forward(s, qkv, x, norm);
  qkv_split(raw_q, raw_k, made.v, qkv, s.stream);
  norm_and_turn(s, made.q, raw_q, norms_ ? &norms_->q : nullptr, saved ? &made.q_norm : nullptr);
  norm_and_turn(s, made.k, raw_k, norms_ ? &norms_->k : nullptr, saved ? &made.k_norm : nullptr);
  return made;
}

// From the gradients of what project() returned; dq is overwritten.
void Attention::project_backward(Step& s, Tensor dx, Tensor dq, Tensor dk, Tensor dv, ConstTensor x,
                                 const Saved& v) const {
  if (packed(s)) {
    turn(s, all_heads(dq), true);
    return qkv_.backward(s, dx, dq, x);
  }
  const Tensor draw_q =
      norm_and_turn_backward(s, dq, v.raw_q, norms_ ? &norms_->q : nullptr, v.q_norm);
  const Tensor draw_k =
      norm_and_turn_backward(s, dk, v.raw_k, norms_ ? &norms_->k : nullptr, v.k_norm);
  const Tensor dqkv = s.gradient({s.tokens(), qkv_.out_features()});
  qkv_merge(dqkv, draw_q, draw_k, dv, s.stream);
  qkv_.backward(s, dx, dqkv, x);
}

void Attention::attend(Step& s, Tensor o, Tensor lse, const Saved& v) const {
  const AttentionShape shape = attention_shape(s, options_);
  const Dropout dropout =
      s.dropout(options_.attention_dropout, options_.layer, Purpose::attention_dropout);
  if (s.context != nullptr)
    return context_attention_forward(s, o, lse, v.q, v.k, v.v, shape, dropout, options_.layer);
  attention_forward(o, lse, v.q, v.k, v.v, s.first_key, shape, dropout, s.stream);
}

void Attention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                        const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens(), layer = options_.layer, heads = options_.heads,
                     head_dim = options_.head_dim;
  const Dropout hidden = s.dropout(options_.hidden_dropout, layer, Purpose::hidden_dropout1);
  if (s.past.cache != nullptr) {
    const Tensor o = s.scratch({tokens, heads, head_dim});
    const Tensor lse = s.scratch_sums({s.sequences, heads, s.seq_length});
    const Tensor qkv = s.scratch({tokens, qkv_.out_features()});
    qkv_.forward(s, qkv, x, norm);
    attend_past(s, o, lse, qkv);
    proj_.forward_add(s, y, residual, o.reshape({tokens, heads * head_dim}), hidden, ahead);
    return;
  }
  Saved made = project(s, x, saved, norm);
  const void* const keep_core = options_.recompute_core ? nullptr : saved;
  const Tensor o = s.kept(keep_core, {tokens, heads, head_dim});
  const Tensor lse = s.kept_sums(keep_core, {s.sequences, heads, s.seq_length});
  attend(s, o, lse, made);
  proj_.forward_add(s, y, residual, o.reshape({tokens, heads * head_dim}), hidden);
  if (keep_core) made.o = o, made.lse = lse;
  if (saved) *saved = made;
}

void Attention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens(), layer = options_.layer, heads = options_.heads;
  const Dropout hidden = s.dropout(options_.hidden_dropout, layer, Purpose::hidden_dropout1);
  ConstTensor dout = dy;
  if (hidden.p > 0) {
    const Tensor masked = s.gradient(dy.shape());
    add_dropout_backward(s, masked, dy, hidden);
    dout = masked;
  }
  const AttentionShape attended = attention_shape(s, options_);
  const Dropout dropout = s.dropout(options_.attention_dropout, layer, Purpose::attention_dropout);
  Tensor o = v.o, lse = v.lse;
  if (options_.recompute_core) {
    o = s.gradient({tokens, heads, options_.head_dim});
    lse = s.scratch_sums({s.sequences, heads, s.seq_length});
    attend(s, o, lse, v);
  }
  const Tensor d_o = s.scratch(o.shape());
  const Shape joined{tokens, heads * options_.head_dim};
  proj_.backward(s, d_o.reshape(joined), dout, o.reshape(joined));

  // A packed gradient is what the projection's weight gradient reads.
  const Tensor dq = packed(s) ? s.gradient(v.q.shape()) : s.scratch(v.q.shape());
  const Tensor dk = packed(s) ? Tensor() : s.scratch(v.k.shape());
  const Tensor dv = packed(s) ? Tensor() : s.scratch(v.v.shape());
  if (s.context != nullptr)
    context_attention_backward(s, dq, dk, dv, d_o, o, lse, v.q, v.k, v.v, attended, dropout, layer);
  else
    attention_backward(dq, dk, dv, d_o, o, lse, v.q, v.k, v.v, s.first_key, attended, dropout,
                       s.stream);
  project_backward(s, dx, dq, dk, dv, x, v);
}

}  // namespace mt
