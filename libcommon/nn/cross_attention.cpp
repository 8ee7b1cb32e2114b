#include "nn/cross_attention.h"

#include "nn/context_parallel.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"

namespace mt {

// kv: the keys and values, in a generation in runs of the cache.
static Keys keys_of(const Step& s, const Tensor& kv) {
  const CachedPast& past = s.past;
  if (past.cache == nullptr)
    return {.causal = false,
            .first_key = {},
            .lengths = s.memory.tokens.lengths,
            .count = s.memory.tokens.length};
  return {.causal = false,
          .first_key = {},
          .lengths = past.memory_lengths,
          .count = past.longest_memory,
          .stride = kv.shape()[1],
          .slots = past.slots};
}

// [tokens, heads, head_dim] -> [tokens, channels]
static Tensor joined(const Tensor& heads) {
  const Shape& shape = heads.shape();
  return heads.reshape({shape[0], shape[1] * shape[2]});
}

static Qkv heads_of(const Tensor& q, const Tensor& kv) {
  return {.q = q, .k = kv.reshape({kv.numel() / kv.shape()[2], kv.shape()[2]}), .v = {}};
}

Dropout CrossAttention::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.core.layer, Purpose::cross_hidden_dropout);
}

// [sequences or slots of a cache, tokens of each, channels]
Tensor CrossAttention::keys_and_values(Step& s, const Saved* saved) const {
  const CachedPast& past = s.past;
  const Tokens& tokens = s.memory.tokens;
  Tensor kv;
  if (past.cache == nullptr)
    kv = s.kept(saved, {tokens.sequences, tokens.length, kv_.out_features()});
  else
    kv = past.cache->memory(options_.core.layer);
  if (past.slot) kv = kv.rows(*past.slot, *past.slot + 1);
  if (!s.memory.hidden) return kv;
  Step of_memory = s.over(tokens);
  const Tensor rows = kv.reshape({kv.numel() / kv_.out_features(), kv_.out_features()});
  kv_.forward(of_memory, rows.rows(0, tokens.count()), s.memory.hidden);
  return kv;
}

// The Step's tokens as so many sequences as the memory has.  Without positions it is all one
// whether tokens that see the same are of one sequence.
static Step as_many(const Step& s) {
  Tokens together = s.tokens;
  const std::int64_t sequences = s.memory.tokens.sequences;
  if (s.past.cache == nullptr && sequences != together.sequences) {
    together.of_sample = together.of_sample * sequences / together.sequences;
    together.length = together.count() / sequences;
    together.sequences = sequences;
  }
  return s.over(together);
}

void CrossAttention::forward(Step& own, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                             const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(own.layer);
  Step s = as_many(own);
  const AttentionCore::Options& core = options_.core;
  Saved made{
      .q = s.kept(saved, {s.tokens.count(), core.heads, core.head_dim}), .kv = {}, .core = {}};
  q_.forward(s, joined(made.q), x, norm);
  made.kv = keys_and_values(s, saved);
  const Tensor o = core_.forward(s, heads_of(made.q, made.kv), keys_of(s, made.kv),
                                 saved ? &made.core : nullptr);
  if (saved) *saved = made;
  if (y) proj_.forward_add(s, y, residual, joined(o), hidden_dropout(s), ahead);
}

void CrossAttention::backward(Step& own, Tensor dx, ConstTensor dy, ConstTensor x,
                              const Saved& v) const {
  const ArenaScope scope(own.layer);
  Step s = as_many(own);
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  const Qkv heads = heads_of(v.q, v.kv);
  const AttentionCore::Saved found = core_.found(s, heads, keys_of(s, v.kv), v.core);
  const Tensor d_o = s.scratch(found.o.shape());
  proj_.backward(s, joined(d_o), dout, joined(found.o));
  const Tensor dq = s.gradient(v.q.shape()), dkv = s.gradient(v.kv.shape());
  core_.backward(s, heads_of(dq, dkv), d_o, found, heads, keys_of(s, v.kv));
  {
    const ArenaScope of_gradient(s.layer);
    Step of_memory = s.over(s.memory.tokens);
    const Tensor d_hidden = s.scratch(s.memory.hidden.shape());
    kv_.backward(of_memory, d_hidden, dkv.reshape({s.memory.tokens.count(), kv_.out_features()}),
                 s.memory.hidden);
    add(s.memory.gradient, s.memory.gradient, d_hidden, s.stream);
  }
  q_.backward(s, dx, joined(dq), x);
}

}  // namespace mt
