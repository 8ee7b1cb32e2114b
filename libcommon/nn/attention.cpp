#include "nn/attention.h"

#include <cmath>

#include "ops/ops.h"

namespace mt {

// The queries of the micro-batch over `kv_length` of `kv_stride` keys of each sequence.
static AttentionShape attention_shape(const Step& s, const AttentionOptions& options,
                                      std::int64_t kv_length, std::int64_t kv_stride) {
  return {.sequences = s.sequences,
          .q_length = s.seq_length,
          .kv_length = kv_length,
          .kv_stride = kv_stride,
          .heads = options.heads,
          .kv_heads = options.kv_heads,
          .head_dim = options.head_dim,
          .window = options.window,
          .scale = 1 / std::sqrt(static_cast<double>(options.head_dim))};
}

void Attention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x,
                        Saved* saved) const {
  const ArenaScope scope(s.layer);
  const auto& [layer, heads, kv_heads, head_dim, window, attention_dropout, hidden_dropout,
               recompute_core, inv_freq] = options_;
  const std::int64_t tokens = s.tokens();
  const Tensor q = s.kept(saved, {tokens, heads, head_dim});
  Tensor k = s.kept(saved, {tokens, kv_heads, head_dim}), v = s.kept(saved, k.shape());
  const void* const keep_core = recompute_core ? nullptr : saved;
  const Tensor o = s.kept(keep_core, q.shape());
  const Tensor lse = s.kept(keep_core, {s.sequences, heads, s.seq_length});
  AttentionShape attended = attention_shape(s, options_, s.seq_length, s.seq_length);

  const Tensor qkv = s.scratch({tokens, qkv_.out_features()});
  qkv_.forward(s, qkv, x);
  qkv_split(q, k, v, qkv, s.stream);
  if (inv_freq) {
    rope(q, s.positions, inv_freq, false, s.stream);
    rope(k, s.positions, inv_freq, false, s.stream);
  }
  if (s.cache) {
    const std::int64_t begin = s.cache->length(), end = begin + tokens;
    copy(s.cache->keys(layer).rows(begin, end), k, s.stream);
    copy(s.cache->values(layer).rows(begin, end), v, s.stream);
    k = s.cache->keys(layer);
    v = s.cache->values(layer);
    attended = attention_shape(s, options_, end, s.cache->max_length());
  }
  attention_forward(o, lse, q, k, v, s.first_key, attended,
                    s.dropout(attention_dropout, layer, Purpose::attention_dropout), s.stream);

  const Tensor out = s.scratch(y.shape());
  proj_.forward(s, out, o.reshape({tokens, heads * head_dim}));
  bias_dropout_add(y, residual, out, proj_.bias(s),
                   s.dropout(hidden_dropout, layer, Purpose::hidden_dropout1), s.stream);
  if (saved) *saved = {q, k, v, keep_core ? o : Tensor(), keep_core ? lse : Tensor()};
}

void Attention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const auto& [layer, heads, kv_heads, head_dim, window, attention_dropout, hidden_dropout,
               recompute_core, inv_freq] = options_;
  const std::int64_t tokens = s.tokens();
  const Dropout hidden = s.dropout(hidden_dropout, layer, Purpose::hidden_dropout1);
  ConstTensor dout = dy;
  if (hidden.p > 0) {
    const Tensor masked = s.gradient(dy.shape());
    dropout_backward(masked, dy, hidden, s.stream);
    dout = masked;
  }
  const AttentionShape attended = attention_shape(s, options_, s.seq_length, s.seq_length);
  const Dropout dropout = s.dropout(attention_dropout, layer, Purpose::attention_dropout);
  Tensor o = v.o, lse = v.lse;
  if (recompute_core) {
    o = s.gradient(v.q.shape());
    lse = s.scratch({s.sequences, heads, s.seq_length});
    attention_forward(o, lse, v.q, v.k, v.v, s.first_key, attended, dropout, s.stream);
  }
  const Tensor d_o = s.scratch(o.shape());
  const Shape joined{tokens, heads * head_dim};
  proj_.backward(s, d_o.reshape(joined), dout, o.reshape(joined));

  const Tensor dq = s.scratch(v.q.shape()), dk = s.scratch(v.k.shape()),
               dv = s.scratch(v.v.shape());
  attention_backward(dq, dk, dv, d_o, o, lse, v.q, v.k, v.v, s.first_key, attended, dropout,
                     s.stream);
  if (inv_freq) {
    rope(dq, s.positions, inv_freq, true, s.stream);
    rope(dk, s.positions, inv_freq, true, s.stream);
  }
  const Tensor dqkv = s.gradient({tokens, qkv_.out_features()});
  qkv_merge(dqkv, dq, dk, dv, s.stream);
  qkv_.backward(s, dx, dqkv, x);
}

}  // namespace mt
