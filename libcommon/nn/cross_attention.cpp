#include "nn/cross_attention.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

static Keys keys_of(const Memory& memory) {
  return {.causal = false,
          .first_key = {},
          .lengths = memory.tokens.lengths,
          .count = memory.tokens.length};
}

// [tokens, heads, head_dim] -> [tokens, channels]
static Tensor joined(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads.reshape({shape[0], shape[1] * shape[2]});
}

static Qkv heads_of(const Tensor& q, const Tensor& kv) { return {.q = q, .k = kv, .v = {}}; }

Dropout CrossAttention::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.core.layer, Purpose::cross_hidden_dropout);
}

void CrossAttention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                             const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const AttentionCore::Options& core = options_.core;
  Saved made{.q = s.kept(saved, {s.tokens.count(), core.heads, core.head_dim}),
             .kv = s.kept(saved, {s.memory.tokens.count(), kv_.out_features()}),
             .core = {}};
  q_.forward(s, joined(made.q), x, norm);
  Step of_memory = s.over(s.memory.tokens);
  kv_.forward(of_memory, made.kv, s.memory.hidden);
  const Tensor o =
      core_.forward(s, heads_of(made.q, made.kv), keys_of(s.memory), saved ? &made.core : nullptr);
  if (saved) *saved = made;
  if (y) proj_.forward_add(s, y, residual, joined(o), hidden_dropout(s), ahead);
}

void CrossAttention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                              const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const Qkv heads = heads_of(v.q, v.kv);
  const AttentionCore::Saved found = core_.found(s, heads, keys_of(s.memory), v.core);
  const Tensor d_o = s.scratch(found.o.shape());
  proj_.backward(s, joined(d_o), dout, joined(found.o));
  const Tensor dq = s.gradient(v.q.shape()), dkv = s.gradient(v.kv.shape());
  core_.backward(s, heads_of(dq, dkv), d_o, found, heads, keys_of(s.memory));
  {
    const ArenaScope of_gradient(s.layer);
    Step of_memory = s.over(s.memory.tokens);
    const Tensor d_hidden = s.scratch(s.memory.hidden.shape());
    kv_.backward(of_memory, d_hidden, dkv, s.memory.hidden);
    add(s.memory.gradient, s.memory.gradient, d_hidden, s.stream);
  }
  q_.backward(s, dx, joined(dq), x);
}

}  // namespace mt
