#include "nn/attention_core.h"

#include <cmath>

#include "nn/context_attention.h"
#include "nn/context_parallel.h"
#include "nn/kv_cache.h"
#include "ops/attention_sink.h"
#include "ops/check.h"
#include "ops/coded_attention.h"
#include "ops/largest_score.h"
#include "ops/ops.h"

namespace mt {

void find_angles(Step& s, const Rotary& rotary) {
  if (s.past.cache == nullptr) return;
  s.past.interleaved = rotary.interleaved;
  for (std::size_t i = 0; i < rotary.inv_freq.size(); ++i) {
    const ConstTensor& inv_freq = rotary.inv_freq[i];
    if (!inv_freq) continue;
    const Tensor angles = s.scratch_sums({s.tokens.count(), 2 * inv_freq.numel()});
    rope_angles(angles, inv_freq, s.tokens.positions, rotary.magnitude, s.stream);
    s.past.angles[i] = angles;
  }
}

// --- Sinks --------------------------------------------------------------------------------------

void HeadSink::add(Step& s, Tensor o, Tensor lse, const SinkShape& heads,
                   std::int64_t first_head) const {
  if (!is_there) return;
  ConstTensor own;
  if (scores != nullptr) own = s.weight(*scores).rows(first_head, first_head + heads.heads);
  add_sink(o, lse, own, heads, s.stream);
  if (scores != nullptr) s.done(*scores);
}

void HeadSink::backward(Step& s, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                        const SinkShape& heads, std::int64_t first_head) const {
  if (scores == nullptr || !scores->trainable) return;
  const std::int64_t end = first_head + heads.heads;
  sink_backward(s.gradient_of(*scores).rows(first_head, end), d_o, o, lse,
                s.weight(*scores).rows(first_head, end), heads, s.stream);
  s.done(*scores);
}

SinkShape AttentionCore::sink_shape(const Step& s) const {
  return {.sequences = s.tokens.sequences,
          .q_length = s.tokens.length,
          .heads = options_.heads,
          .head_dim = options_.head_dim};
}

// --- The core -----------------------------------------------------------------------------------

AttentionShape AttentionCore::shape(const Step& s, const Keys& keys) const {
  const std::int64_t count = keys.count > 0 ? keys.count : s.tokens.length;
  return {.sequences = s.tokens.sequences,
          .q_length = s.tokens.length,
          .kv_length = count,
          .kv_stride = keys.stride > 0 ? keys.stride : count,
          .heads = options_.heads,
          .kv_heads = options_.kv_heads,
          .head_dim = options_.head_dim,
          .values = options_.values,
          .first_head = options_.first_head,
          .window = keys.window,
          .causal = keys.causal,
          .kv_lengths = or_null<std::int32_t>(keys.lengths),
          .kv_slots = or_null<std::int32_t>(keys.slots),
          .bias = keys.bias.data(),
          .scale = options_.scale / std::sqrt(static_cast<double>(options_.head_dim)),
          .softcap = options_.softcap,
          .queries_alone = s.batch_invariant};
}

Dropout AttentionCore::dropout(const Step& s) const {
  return s.dropout(options_.dropout, options_.layer, options_.purpose);
}

Shape AttentionCore::shape_of_o(const Step& s) const {
  return {s.tokens.count(), options_.heads, options_.head_dim};
}

Shape AttentionCore::shape_of_lse(const Step& s) const {
  return {s.tokens.sequences, options_.heads, s.tokens.length};
}

bool AttentionCore::takes_packed(const Step& s) const {
  return s.context == nullptr || s.context->comm(options_.layer) == ContextComm::a2a;
}

// Attention of the Step's tokens over what lies in the pages of its sequences.
AttentionShape AttentionCore::shape_of_past(const Step& s, const Keys& keys,
                                            std::int64_t page_tokens) const {
  AttentionShape attended = shape(s, keys);
  attended.kv_length = s.past.longest;
  attended.kv_stride = page_tokens;
  attended.kv_slots = or_null<std::int32_t>(s.past.pages);
  attended.kv_runs = s.past.pages.shape()[1];
  return attended;
}

Tensor AttentionCore::forward_latents(Step& s, ConstTensor q, const Keys& keys) const {
  const Tensor latents = s.past.cache->latents(options_.layer);
  const Shape& pages = latents.shape();
  const Tensor rows = latents.reshape({pages[0] * pages[1], pages[2], pages[3]}),
               o = s.scratch(q.shape()), lse = s.scratch_sums(shape_of_lse(s));
  attention_forward(o, lse, q, rows, rows, keys.first_key, shape_of_past(s, keys, pages[1]), {},
                    s.stream);
  return o;
}

// All sequences in one go, each over its own keys: it is computed as if it were alone.
void AttentionCore::attend_past(Step& s, const Saved& found, const Qkv& heads,
                                const Keys& keys) const {
  const ArenaScope scope(s.layer);
  const CachedPast& past = s.past;
  const Tensor k = past.cache->keys(options_.layer), v = past.cache->values(options_.layer);
  Tensor rows = heads.q;
  if (!heads.packed()) {
    rows =
        s.scratch({s.tokens.count(), (options_.heads + 2 * options_.kv_heads) * options_.head_dim});
    qkv_merge(rows, heads.q, heads.k, heads.v, s.stream);
  }
  const std::int64_t capacity = k.shape()[1];
  const Shape used{(past.longest + capacity - 1) / capacity, capacity, k.shape()[2], k.shape()[3]},
      own{s.tokens.count(), k.shape()[2], k.shape()[3]};
  const ConstTensor angles = options_.angles ? past.angles[*options_.angles] : ConstTensor();
  if (k.dtype() == DType::f8) {
    coded_attention({.o = found.o,
                     .keys = k,
                     .values = v,
                     .q = s.scratch(found.o.shape()),
                     .lse = found.lse,
                     .own_keys = s.scratch(own),
                     .own_values = s.scratch(own),
                     .joined_keys = s.scratch(used),
                     .joined_values = s.scratch(used),
                     .qkv = rows,
                     .positions = s.tokens.positions,
                     .slots = past.pages,
                     .angles = angles,
                     .first_key = keys.first_key,
                     .scales = past.cache->scales(options_.layer),
                     .interleaved = past.interleaved,
                     .shape = shape_of_past(s, keys, capacity),
                     .needs_lse = options_.sink.is_there},
                    s.stream);
    return options_.sink.add(s, found.o, found.lse, sink_shape(s), 0);
  }
  Tensor joined_keys, joined_values;
  if (past.slot && k.device() != Device::cpu) {
    joined_keys = s.scratch(used);
    joined_values = s.scratch(used);
  }
  cached_attention({.o = found.o,
                    .keys = k,
                    .values = v,
                    .q = s.scratch(found.o.shape()),
                    .lse = found.lse,
                    .joined_keys = joined_keys,
                    .joined_values = joined_values,
                    .qkv = rows,
                    .positions = s.tokens.positions,
                    .slots = past.pages,
                    .angles = angles,
                    .first_key = keys.first_key,
                    .interleaved = past.interleaved,
                    .shape = shape_of_past(s, keys, capacity),
                    .needs_lse = options_.sink.is_there,
                    .repeats = past.repeats},
                   s.stream);
  options_.sink.add(s, found.o, found.lse, sink_shape(s), 0);
}

void AttentionCore::attend(Step& s, const Saved& found, const Qkv& heads, const Keys& keys) const {
  if (s.past.cache != nullptr && keys.count == 0) return attend_past(s, found, heads, keys);
  if (s.context != nullptr)
    return context_attention_forward(s, found, heads, keys, shape(s, keys), dropout(s), options_);
  attention_forward(found.o, found.lse, heads.q, heads.k, heads.v, keys.first_key, shape(s, keys),
                    dropout(s), s.stream);
  options_.sink.add(s, found.o, found.lse, sink_shape(s), 0);
}

// A repetition's scores have been noted, and the largest is not asked of keys of other tokens.
void AttentionCore::note_largest(Step& s, const Qkv& heads, const Keys& keys) const {
  if (!s.largest_scores || s.again || keys.count > 0) return;
  const Tensor of_layer = s.largest_scores.rows(options_.layer, options_.layer + 1);
  add_largest_scores(of_layer.reshape({options_.heads}), heads.q, heads.k, keys.first_key,
                     shape(s, keys), s.stream);
}

Tensor AttentionCore::forward(Step& s, const Qkv& heads, const Keys& keys, Saved* saved) const {
  if (options_.recompute) saved = nullptr;
  const Saved found{s.kept(saved, shape_of_o(s)), s.kept_sums(saved, shape_of_lse(s))};
  attend(s, found, heads, keys);
  note_largest(s, heads, keys);
  if (saved) *saved = found;
  return found.o;
}

void AttentionCore::forward_part(Step& s, Tensor o, Tensor lse, const Qkv& heads,
                                 const AttentionRange& range, bool so_far) const {
  AttentionShape part = shape(s, {});
  part.kv_length = part.kv_stride = heads.k.shape()[0];
  attention_part_forward(o, lse, heads.q, heads.k, heads.v, {}, part, range, {},
                         {.of_queries = so_far}, s.stream);
}

AttentionCore::Saved AttentionCore::found(Step& s, const Qkv& heads, const Keys& keys,
                                          const Saved& saved) const {
  if (saved.o) return saved;
  const Saved again{s.gradient(shape_of_o(s)), s.scratch_sums(shape_of_lse(s))};
  attend(s, again, heads, keys);
  return again;
}

void AttentionCore::backward(Step& s, const Qkv& gradients, ConstTensor d_o, const Saved& found,
                             const Qkv& heads, const Keys& keys) const {
  if (s.context != nullptr)
    return context_attention_backward(s, gradients, d_o, found, heads, keys, shape(s, keys),
                                      dropout(s), options_);
  attention_backward(gradients.q, gradients.k, gradients.v, d_o, found.o, found.lse, heads.q,
                     heads.k, heads.v, keys.first_key, shape(s, keys), dropout(s), s.stream);
  options_.sink.backward(s, d_o, found.o, found.lse, sink_shape(s), 0);
}

Tensor AttentionCore::bias_gradient(Step& s, ConstTensor d_o, const Saved& found, const Qkv& heads,
                                    const Keys& keys) const {
  const Tensor gradient = s.scratch_sums(keys.bias.shape());
  attention_bias_backward(gradient, d_o, found.o, found.lse, heads.q, heads.k, heads.v,
                          keys.first_key, shape(s, keys), dropout(s), s.stream);
  return gradient;
}

}  // namespace mt
