#include "nn/attention.h"

#include <cmath>

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
          .window = options.window,
          .scale = 1 / std::sqrt(static_cast<double>(options.head_dim))};
}

void Attention::turn(Step& s, Tensor x, bool inverse) const {
  if (!options_.inv_freq) return;
  rope(x,
       {.inv_freq = options_.inv_freq,
        .interleaved = options_.rotary_interleaved,
        .seq_length = s.seq_length},
       inverse, s.stream);
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
  const Tensor q = s.scratch(o.shape());
  cached_qkv({.q = q,
              .keys = keys,
              .values = values,
              .qkv = qkv,
              .positions = s.positions,
              .slots = past.slots,
              .angles = past.angles,
              .interleaved = options_.rotary_interleaved},
             s.stream);
  AttentionShape attended = attention_shape(s, options_);
  attended.kv_length = past.longest;
  attended.kv_stride = keys.shape()[1];
  if (!past.slot) {
    attended.kv_lengths = past.lengths.as<std::int32_t>();
    attended.kv_slots = past.slots.as<std::int32_t>();
  }
  const Shape joined{keys.shape()[0] * keys.shape()[1], options_.kv_heads, options_.head_dim};
  attention_forward(o, lse, q, keys.reshape(joined), values.reshape(joined), s.first_key, attended,
                    {}, s.stream);
}

void Attention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                        const Norm* norm) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens(), layer = options_.layer, heads = options_.heads,
                     kv_heads = options_.kv_heads, head_dim = options_.head_dim;
  const Dropout hidden = s.dropout(options_.hidden_dropout, layer, Purpose::hidden_dropout1);
  if (s.past.cache != nullptr) {
    const Tensor o = s.scratch({tokens, heads, head_dim});
    const Tensor lse = s.scratch_sums({s.sequences, heads, s.seq_length});
    const Tensor qkv = s.scratch({tokens, qkv_.out_features()});
    qkv_.forward(s, qkv, x, norm);
    attend_past(s, o, lse, qkv);
    proj_.forward_add(s, y, residual, o.reshape({tokens, heads * head_dim}), hidden);
    return;
  }
  const Tensor q = s.kept(saved, {tokens, heads, head_dim});
  const Tensor k = s.kept(saved, {tokens, kv_heads, head_dim}), v = s.kept(saved, k.shape());
  const void* const keep_core = options_.recompute_core ? nullptr : saved;
  const Tensor o = s.kept(keep_core, q.shape());
  const Tensor lse = s.kept_sums(keep_core, {s.sequences, heads, s.seq_length});

  const Tensor raw_q = norms_ ? s.kept(saved, q.shape()) : q;
  const Tensor raw_k = norms_ ? s.kept(saved, k.shape()) : k;
  Norm::Saved q_norm, k_norm;

  const Tensor qkv = s.scratch({tokens, qkv_.out_features()});
  qkv_.forward(s, qkv, x, norm);
  qkv_split(raw_q, raw_k, v, qkv, s.stream);
  norm_and_turn(s, q, raw_q, norms_ ? &norms_->q : nullptr, saved ? &q_norm : nullptr);
  norm_and_turn(s, k, raw_k, norms_ ? &norms_->k : nullptr, saved ? &k_norm : nullptr);
  attention_forward(o, lse, q, k, v, s.first_key, attention_shape(s, options_),
                    s.dropout(options_.attention_dropout, layer, Purpose::attention_dropout),
                    s.stream);
  proj_.forward_add(s, y, residual, o.reshape({tokens, heads * head_dim}), hidden);
  if (!saved) return;
  *saved = {q, k, v, keep_core ? o : Tensor(), keep_core ? lse : Tensor(), {}, {}, q_norm, k_norm};
  if (norms_) {
    saved->raw_q = raw_q;
    saved->raw_k = raw_k;
  }
}

void Attention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t tokens = s.tokens(), layer = options_.layer, heads = options_.heads;
  const Dropout hidden = s.dropout(options_.hidden_dropout, layer, Purpose::hidden_dropout1);
  ConstTensor dout = dy;
  if (hidden.p > 0) {
    const Tensor masked = s.gradient(dy.shape());
    dropout_backward(masked, dy, hidden, s.stream);
    dout = masked;
  }
  const AttentionShape attended = attention_shape(s, options_);
  const Dropout dropout = s.dropout(options_.attention_dropout, layer, Purpose::attention_dropout);
  Tensor o = v.o, lse = v.lse;
  if (options_.recompute_core) {
    o = s.gradient(v.q.shape());
    lse = s.scratch_sums({s.sequences, heads, s.seq_length});
    attention_forward(o, lse, v.q, v.k, v.v, s.first_key, attended, dropout, s.stream);
  }
  const Tensor d_o = s.scratch(o.shape());
  const Shape joined{tokens, heads * options_.head_dim};
  proj_.backward(s, d_o.reshape(joined), dout, o.reshape(joined));

  const Tensor dq = s.scratch(v.q.shape()), dk = s.scratch(v.k.shape()),
               dv = s.scratch(v.v.shape());
  attention_backward(dq, dk, dv, d_o, o, lse, v.q, v.k, v.v, s.first_key, attended, dropout,
                     s.stream);
  const Tensor draw_q =
      norm_and_turn_backward(s, dq, v.raw_q, norms_ ? &norms_->q : nullptr, v.q_norm);
  const Tensor draw_k =
      norm_and_turn_backward(s, dk, v.raw_k, norms_ ? &norms_->k : nullptr, v.k_norm);
  const Tensor dqkv = s.gradient({tokens, qkv_.out_features()});
  qkv_merge(dqkv, draw_q, draw_k, dv, s.stream);
  qkv_.backward(s, dx, dqkv, x);
}

}  // namespace mt
