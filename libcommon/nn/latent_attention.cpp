#include "nn/latent_attention.h"

#include <algorithm>
#include <cmath>

#include "nn/context_parallel.h"
#include "nn/kv_cache.h"
#include "nn/tensor_parallel.h"
#include "ops/ops.h"

namespace mt {

// All heads have the latents and turning keys of a cache as one head's keys and values.
AttentionCore::Options LatentAttention::core_of_past(const Options& options, const Latent& kv) {
  AttentionCore::Options core = options.core;
  core.kv_heads = 1;
  core.head_dim = kv.down.out_features();
  core.values = 0;
  core.scale *=
      std::sqrt(static_cast<double>(core.head_dim) / static_cast<double>(options.core.head_dim));
  return core;
}

Keys LatentAttention::keys(const Step& s) const {
  return {.causal = s.tokens.causal,
          .window = options_.window,
          .first_key = s.tokens.first_key,
          .lengths = s.past.cache != nullptr ? s.past.lengths : s.tokens.lengths};
}

LatentHeads LatentAttention::shape(const Step& s) const {
  LatentHeads shape = options_.heads;
  shape.tokens = s.tokens.count();
  return shape;
}

Dropout LatentAttention::hidden_dropout(const Step& s) const {
  return s.dropout(options_.hidden_dropout, options_.core.layer, Purpose::hidden_dropout1);
}

// x: [tokens, heads, channels], of which the first turn.  A cache turns what it takes.
void LatentAttention::turn(Step& s, Tensor x, bool inverse) const {
  if (s.past.cache != nullptr) return;
  turn_tokens(s, x,
              {.inv_freq = options_.inv_freq,
               .interleaved = true,
               .seq_length = s.tokens.length,
               .magnitude = options_.rotary_magnitude},
              inverse);
}

void LatentAttention::make_normed(Step& s, Made& made, const std::optional<Norm>& norm,
                                  const Saved* saved) const {
  made.normed = made.x;
  if (!norm) return;
  made.normed = s.kept(saved, made.x.shape());
  norm->forward(s, made.normed, made.x, saved ? &made.norm : nullptr);
}

// Latents, of this rank's rows, and the key that turns, of all tokens.
void LatentAttention::make_latents(Step& s, Saved& made, ConstTensor x, const Saved* saved) const {
  const LatentHeads of = shape(s);
  if (q_.latent) {
    made.q.x = s.kept(saved, {s.rows(), q_.latent->down.out_features()});
    q_.latent->down.forward(s, made.q.x, x);
    make_normed(s, made.q, q_.latent->norm, saved);
  }
  const std::int64_t both = kv_.down.out_features();
  made.kv.x = s.kept(saved, {s.rows(), both - of.turning});
  made.turning = s.kept(options_.recompute_up ? saved : nullptr, {of.tokens, of.turning});
  {
    const ArenaScope scope(s.layer);
    const Tensor rows = s.scratch({s.rows(), both});
    kv_.down.forward(s, rows, x);
    const Tensor own = s.shares_rows() ? s.scratch({s.rows(), of.turning}) : made.turning;
    split_columns(made.kv.x, own, rows, s.stream);
    if (s.shares_rows()) gather_rows(s, made.turning, own).wait();
    turn(s, made.turning.reshape({of.tokens, 1, of.turning}), false);
  }
  make_normed(s, made.kv, kv_.norm, saved);
}

void LatentAttention::make_heads(Step& s, const Qkv& heads, const Saved& made,
                                 ConstTensor x) const {
  const ArenaScope scope(s.layer);
  const LatentHeads of = shape(s);
  const Tensor q_rows = s.scratch({of.tokens, of.heads * of.q_width()}),
               kv_rows = s.scratch({of.tokens, of.heads * of.kv_width()});
  q_.up.forward(s, q_rows, q_.latent ? ConstTensor(made.q.normed) : x);
  kv_up_.forward(s, kv_rows, made.kv.normed);
  latent_heads_forward({heads.q, heads.k, heads.v}, {q_rows, kv_rows, made.turning}, of, s.stream);
  turn(s, heads.q, false);
}

// Returns what the queries find with heads of keys and values, which a cache may keep:
// [tokens, heads, width].
Tensor LatentAttention::find_by_heads(Step& s, Saved& made, ConstTensor x, Saved* saved) const {
  const LatentHeads of = shape(s);
  const Shape of_heads{of.tokens, of.heads, of.width()};
  Saved* const keeps_heads = options_.recompute_up ? nullptr : saved;
  made.heads = {s.kept(keeps_heads, of_heads), s.kept(keeps_heads, of_heads),
                s.kept(keeps_heads, of_heads)};
  make_heads(s, made.heads, made, x);
  return core_.forward(s, made.heads, keys(s), saved ? &made.core : nullptr);
}

// q gets the channels that turn, the cache what is kept of the tokens.
void LatentAttention::put_latents(Step& s, Tensor q, ConstTensor q_rows, const Saved& made) const {
  cached_latents({.q = q,
                  .cache = s.past.cache->latents(past_core_.options().layer),
                  .q_rows = q_rows,
                  .turning = made.turning,
                  .latents = made.kv.normed,
                  .angles = s.past.angles[0],
                  .positions = s.tokens.positions,
                  .slots = s.past.pages},
                 s.stream);
}

// Returns what the queries find among the latents of a cache, in which the tokens' own are put:
// [tokens, heads values].
Tensor LatentAttention::find_by_latents(Step& s, const Saved& made, ConstTensor x) const {
  const LatentHeads of = shape(s);
  const Tensor values = s.scratch({of.tokens, of.heads * of.values});
  const ArenaScope scope(s.layer);
  const std::int64_t width = past_core_.options().head_dim;
  const Tensor q_rows = s.scratch({of.tokens, of.heads * of.q_width()}),
               q = s.scratch({of.tokens, of.heads, width});
  q_.up.forward(s, q_rows, q_.latent ? ConstTensor(made.q.normed) : x);
  put_latents(s, q, q_rows, made);
  const HeadProductShape of_head{.rows_of_head = of.kv_width(), .rows_alone = s.rows_alone()};
  HeadProductShape product = of_head;
  product.rows = of.fixed;
  product.first_out = of.turning;
  kv_up_.multiply_heads(s, q, q_rows.reshape({of.tokens, of.heads, of.q_width()}), product);
  const Tensor o = past_core_.forward_latents(s, q, keys(s));
  product = of_head;
  product.first_row = of.fixed;
  product.rows = of.values;
  product.first_x = of.turning;
  product.transposed = true;
  kv_up_.multiply_heads(s, values.reshape({of.tokens, of.heads, of.values}), o, product);
  return values;
}

// Whether the products of a query with a key and a value, of which latents have more channels, are
// so many that to make these of a latent costs less.
bool LatentAttention::heads_are_less(const Step& s) const {
  const LatentHeads& of = options_.heads;
  const std::int64_t width = past_core_.options().head_dim, rank = width - of.turning;
  return s.past.slot && options_.window < 0 &&
         2 * s.tokens.count() * (width - of.width()) > of.kv_width() * rank;
}

// Returns keys and values of the tokens [first, end) of a sequence alone, which lie in whole pages
// of the cache; in `layer`.
Qkv LatentAttention::past_heads(Step& s, std::int64_t first, std::int64_t end) const {
  LatentHeads of = options_.heads;
  of.tokens = end - first;
  const Tensor latents = s.past.cache->latents(past_core_.options().layer);
  const std::int64_t pages = latents.shape()[0], in_page = latents.shape()[1],
                     width = latents.shape()[3], begin = first / in_page,
                     count = (end + in_page - 1) / in_page - begin;
  const Shape of_heads{of.tokens, of.heads, of.width()};
  const Qkv made{{}, s.scratch(of_heads), s.scratch(of_heads)};
  const ArenaScope scope(s.layer);
  const Tensor joined = s.scratch({count, in_page * width}),
               turning = s.scratch({of.tokens, of.turning}),
               rows = s.scratch({of.tokens, width - of.turning}),
               kv_rows = s.scratch({of.tokens, of.heads * of.kv_width()});
  const ConstTensor used = s.past.pages.reshape({s.past.pages.numel()}).rows(begin, begin + count);
  embedding_forward(joined, used, latents.reshape({pages, in_page * width}), 0, false, s.stream);
  split_columns(turning, rows, joined.reshape({count * in_page, width}).rows(0, of.tokens),
                s.stream);
  kv_up_.forward(s, kv_rows, rows);
  latent_heads_forward({{}, made.k, made.v}, {{}, kv_rows, turning}, of, s.stream);
  return made;
}

// Returns what find_by_latents() does, of the tokens of a piece that are with those before them the
// whole of a sequence.
Tensor LatentAttention::find_by_past_heads(Step& s, const Saved& made, ConstTensor x) const {
  constexpr std::int64_t kPastTokens = 2048;  // of which there are heads at a time
  const LatentHeads of = shape(s);
  const Tensor values = s.scratch({of.tokens, of.heads * of.values});
  const ArenaScope scope(s.layer);
  const Tensor q_rows = s.scratch({of.tokens, of.heads * of.q_width()});
  q_.up.forward(s, q_rows, q_.latent ? ConstTensor(made.q.normed) : x);
  {
    const ArenaScope scope_of_put(s.layer);
    put_latents(s, s.scratch({of.tokens, of.heads, past_core_.options().head_dim}), q_rows, made);
  }
  const std::int64_t before = s.past.longest - of.tokens,
                     in_page = s.past.cache->latents(past_core_.options().layer).shape()[1],
                     at_once = std::max(kPastTokens / in_page, std::int64_t{1}) * in_page;
  const Shape of_heads{of.tokens, of.heads, of.width()};
  Qkv own{s.scratch(of_heads), s.scratch(of_heads), s.scratch(of_heads)};
  const Tensor turning = s.scratch(made.turning.shape());
  {
    const ArenaScope scope_of_rows(s.layer);
    const Tensor kv_rows = s.scratch({of.tokens, of.heads * of.kv_width()});
    kv_up_.forward(s, kv_rows, made.kv.normed);
    copy(turning, made.turning, s.stream);
    const Rope rope_of{.inv_freq = options_.inv_freq,
                       .interleaved = true,
                       .seq_length = of.tokens,
                       .magnitude = options_.rotary_magnitude,
                       .first_position = before};
    rope(turning.reshape({of.tokens, 1, of.turning}), rope_of, false, s.stream);
    latent_heads_forward({own.q, own.k, own.v}, {q_rows, kv_rows, turning}, of, s.stream);
    rope(own.q, rope_of, false, s.stream);
  }
  const Tensor o = s.scratch_sums(of_heads), lse = s.scratch_sums({of.heads * of.tokens});
  AttentionRange range{.query = before, .key = before, .chunk = of.tokens};
  core_.forward_part(s, o, lse, own, range, false);
  for (range.key = 0; range.key < before; range.key += at_once) {
    const ArenaScope scope_of_past(s.layer);
    Qkv past = past_heads(s, range.key, std::min(before, range.key + at_once));
    past.q = own.q;
    // All of the queries and of the keys are before the gap that a range may have.
    range.chunk = std::max(of.tokens, past.k.shape()[0]);
    core_.forward_part(s, o, lse, past, range, true);
  }
  Tensor found = o;
  if (o.dtype() != own.q.dtype()) {
    found = s.scratch(of_heads);
    copy(found, o, s.stream);
  }
  split_columns(values.reshape({of.tokens * of.heads, of.values}), {},
                found.reshape({of.tokens * of.heads, of.width()}), s.stream);
  return values;
}

void LatentAttention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                              const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  ConstTensor read = x;
  if (norm != nullptr) {
    const Tensor normed = s.scratch(x.shape());
    norm->forward(s, normed, x, nullptr);
    read = normed;
  }
  Saved made;
  make_latents(s, made, read, saved);
  const bool by_latents =
      s.past.cache != nullptr && s.past.cache->latents(past_core_.options().layer).numel() > 0;
  const Tensor found = !by_latents         ? find_by_heads(s, made, read, saved)
                       : heads_are_less(s) ? find_by_past_heads(s, made, read)
                                           : find_by_latents(s, made, read);
  if (saved) *saved = made;
  if (saved && options_.recompute_up)
    saved->heads = {};
  else if (saved)
    saved->turning = {};
  if (!y) return;
  Tensor values = found;
  if (!by_latents) {
    const LatentHeads of = shape(s);
    values = s.scratch({of.tokens, of.heads * of.values});
    split_columns(values.reshape({of.tokens * of.heads, of.values}), {},
                  found.reshape({of.tokens * of.heads, of.width()}), s.stream);
  }
  proj_.forward_add(s, y, residual, values, hidden_dropout(s), ahead);
}

// The gradient of what a norm read, for the weight gradient of the projection before it.
Tensor LatentAttention::normed_gradient(Step& s, const Tensor& d_normed,
                                        const std::optional<Norm>& norm, const Made& made) const {
  if (!norm) return d_normed;
  const Tensor d = s.gradient(d_normed.shape());
  norm->backward(s, d, d_normed, made.x, made.norm);
  return d;
}

// dx: the gradient by way of keys and values.
void LatentAttention::kv_backward(Step& s, Tensor dx, Tensor d_rows, Tensor d_turning,
                                  ConstTensor x, const Saved& v) const {
  const std::int64_t rank = v.kv.normed.shape()[1], turning = d_turning.shape()[1];
  const Tensor d_normed = s.gradient({s.rows(), rank}),
               d_both = s.gradient({s.rows(), rank + turning});
  kv_up_.backward(s, d_normed, d_rows, v.kv.normed);
  turn(s, d_turning.reshape({s.tokens.count(), 1, turning}), true);
  Tensor own = d_turning;  // of this rank's rows, summed over the heads of all ranks
  if (s.tensor_ranks() > 1) {
    if (s.shares_rows()) own = s.scratch({s.rows(), turning});
    sum_parts(s, own, d_turning).wait();
  }
  merge_columns(d_both, normed_gradient(s, d_normed, kv_.norm, v.kv), own, s.stream);
  kv_.down.backward(s, dx, d_both, x);
}

void LatentAttention::up_backward(Step& s, Tensor dx, const Qkv& d_heads, ConstTensor x,
                                  const Saved& v) const {
  const LatentHeads of = shape(s);
  const Tensor dq_rows = s.gradient({of.tokens, of.heads * of.q_width()}),
               dkv_rows = s.gradient({of.tokens, of.heads * of.kv_width()}),
               d_turning = s.scratch({of.tokens, of.turning}), by_kv = s.scratch(dx.shape());
  turn(s, d_heads.q, true);
  latent_heads_backward({dq_rows, dkv_rows, d_turning}, {d_heads.q, d_heads.k, d_heads.v}, of,
                        s.stream);
  if (q_.latent) {
    const Tensor d_normed = s.gradient(v.q.normed.shape());
    q_.up.backward(s, d_normed, dq_rows, v.q.normed);
    q_.latent->down.backward(s, dx, normed_gradient(s, d_normed, q_.latent->norm, v.q), x);
  } else {
    q_.up.backward(s, dx, dq_rows, x);
  }
  kv_backward(s, by_kv, dkv_rows, d_turning, x, v);
  add(dx, dx, by_kv, s.stream);
}

void LatentAttention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                               const Saved& v) const {
  const ArenaScope scope(s.layer);
  const LatentHeads of = shape(s);
  const Shape of_heads{of.tokens, of.heads, of.width()}, of_rows{of.tokens * of.heads, of.width()},
      of_values{of.tokens * of.heads, of.values};
  const ConstTensor dout = dropped_gradient(s, dy, hidden_dropout(s));
  Qkv heads = v.heads;
  if (!heads.q) {
    heads = {s.scratch(of_heads), s.scratch(of_heads), s.scratch(of_heads)};
    make_heads(s, heads, v, x);
  }
  const Keys seen = keys(s);
  const AttentionCore::Saved found = core_.found(s, heads, seen, v.core);
  const Tensor values = s.gradient({of.tokens, of.heads * of.values}),
               d_values = s.scratch(values.shape()), d_o = s.scratch(of_heads);
  split_columns(values.reshape(of_values), {}, found.o.reshape(of_rows), s.stream);
  proj_.backward(s, d_values, dout, values);
  merge_columns(d_o.reshape(of_rows), d_values.reshape(of_values), {}, s.stream);
  const Qkv d{s.scratch(of_heads), s.scratch(of_heads), s.scratch(of_heads)};
  core_.backward(s, d, d_o, found, heads, seen);
  up_backward(s, dx, d, x, v);
}

}  // namespace mt
