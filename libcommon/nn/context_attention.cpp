#include "nn/context_attention.h"

#include <cassert>
#include <limits>
#include <utility>

#include "nn/context_parallel.h"
#include "nn/head_exchange.h"

namespace mt {
namespace {

// Tokens of some heads over those of a ring's members, of whom each has two chunks of a sequence.
// Memory is the layer arena's, until the caller rewinds it.
class RingAttention {
 public:
  // shape: of a member's tokens.  A null `way`: keys are gathered instead of passed on.
  RingAttention(Step& s, Group& ring, Ring* way, ConstTensor first_key, const AttentionShape& shape,
                const Dropout& dropout)
      : s_(s),
        ring_(ring),
        way_(way),
        first_key_(first_key),
        shape_(shape),
        dropout_(dropout),
        sequences_(shape.sequences),
        chunk_(shape.q_length / 2) {
    assert(shape.causal);
    shape_.sequences = 1;
    shape_.q_length = shape_.kv_length = shape_.kv_stride = chunk_;
  }

  void forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v) {
    const Tensor sums = lse.reshape({2 * sequences_, shape_.heads, chunk_}), out = summed(o);
    set_zero(out, s_.stream);
    fill(sums, -std::numeric_limits<double>::infinity(), s_.stream);
    const auto attend = [&](int source, const Tensor& theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_forward(of_queries(out, pair), sums.rows(pair.row, pair.row + 1),
                               of_queries(q, pair), of_keys(theirs, 0, pair),
                               of_keys(theirs, 1, pair), first_keys(pair), shape_, pair.range,
                               dropout_, s_.stream);
      });
    };
    const Tensor keys = keys_and_values(k, v);
    way_ != nullptr ? pass_keys(keys, attend) : gather_keys(keys, attend);
    if (out.data() != o.data()) copy(o, out, s_.stream);
  }

  void backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                ConstTensor q, ConstTensor k, ConstTensor v) {
    const ConstTensor sums = lse.reshape({2 * sequences_, shape_.heads, chunk_});
    const Tensor d_queries = summed(dq);
    set_zero(d_queries, s_.stream);
    const auto attend = [&](int source, const Tensor& theirs, const Tensor& d_theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_backward(
            of_queries(d_queries, pair), of_keys(d_theirs, 0, pair), of_keys(d_theirs, 1, pair),
            of_queries(d_o, pair), of_queries(o, pair), sums.rows(pair.row, pair.row + 1),
            of_queries(q, pair), of_keys(theirs, 0, pair), of_keys(theirs, 1, pair),
            first_keys(pair), shape_, pair.range, dropout_, s_.stream);
      });
    };
    const Tensor keys = keys_and_values(k, v);
    const Tensor d_keys =
        way_ != nullptr ? pass_keys_backward(keys, attend) : gather_keys_backward(keys, attend);
    if (d_queries.data() != dq.data()) copy(dq, d_queries, s_.stream);
    copy(dk, d_keys.rows(0, 1).reshape(dk.shape()), s_.stream);
    copy(dv, d_keys.rows(1, 2).reshape(dv.shape()), s_.stream);
  }

 private:
  // A chunk of queries and one of keys, of one sequence.
  struct Pair {
    std::int64_t row = 0, key_row = 0;  // among the chunks of all sequences
    AttentionRange range = {};
  };

  template <class Body>
  void for_pairs(int source, const Body& body) const {
    const auto queries = chunk_starts(chunk_, ring_.size(), ring_.rank());
    const auto keys = chunk_starts(chunk_, ring_.size(), source);
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence)
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
          if (keys[j] <= queries[i])  // the others come after all queries
            body(Pair{.row = 2 * sequence + static_cast<std::int64_t>(i),
                      .key_row = 2 * sequence + static_cast<std::int64_t>(j),
                      .range = {.sequence = sequence, .query = queries[i], .key = keys[j]}});
  }

  // A pair's part of a tensor [tokens, heads, head_dim]; of_keys(): its part of keys and values,
  // [2, tokens, kv_heads, head_dim].
  template <class AnyTensor>
  AnyTensor of_queries(const AnyTensor& tensor, const Pair& pair) const {
    return tensor.rows(pair.row * chunk_, (pair.row + 1) * chunk_);
  }
  Tensor of_keys(const Tensor& keys, std::int64_t which, const Pair& pair) const {
    return keys.rows(which, which + 1)
        .reshape({2 * sequences_ * chunk_, shape_.kv_heads, shape_.head_dim})
        .rows(pair.key_row * chunk_, (pair.key_row + 1) * chunk_);
  }
  ConstTensor first_keys(const Pair& pair) const {
    return first_key_ ? of_queries(first_key_, pair) : ConstTensor();
  }

  // Where a result is summed up: in f32 at least.
  Tensor summed(const Tensor& result) const {
    return result.dtype() == sum_dtype(s_.dtype) ? result : s_.scratch_sums(result.shape());
  }

  Tensor keys_and_values(ConstTensor k, ConstTensor v) {
    const Tensor both = s_.scratch(k.shape().with_front(2));
    copy(both.rows(0, 1), k.reshape(k.shape().with_front(1)), s_.stream);
    copy(both.rows(1, 2), v.reshape(v.shape().with_front(1)), s_.stream);
    return both;
  }

  int member(int steps_back) const {
    return (ring_.rank() - steps_back + ring_.size()) % ring_.size();
  }

  // attend(source, keys) for every member's keys, the next on their way meanwhile.
  template <class Attend>
  void pass_keys(Tensor now, const Attend& attend) {
    Tensor next = s_.scratch(now.shape());
    for (int i = 0; i < ring_.size(); ++i) {
      Pending sent, received;
      if (i + 1 < ring_.size()) {
        sent = way_->send(now);
        received = way_->receive(next);
      }
      attend(member(i), now);
      received.wait();
      sent.wait();
      std::swap(now, next);
    }
  }

  // Gradients follow the keys that they are of, a step behind, and go one further, home.
  template <class Attend>
  Tensor pass_keys_backward(const Tensor& own, const Attend& attend) {
    const Shape& shape = own.shape();
    Tensor made = s_.scratch_sums(shape), leaving = s_.scratch_sums(shape);
    const Tensor arrived = s_.scratch_sums(shape);
    Pending sent, received;
    int passed = 0;
    pass_keys(own, [&](int source, const Tensor& theirs) {
      set_zero(made, s_.stream);
      attend(source, theirs, made);
      received.wait();
      sent.wait();
      if (passed++ > 0) add(made, made, arrived, s_.stream);
      sent = way_->send(made);
      received = way_->receive(arrived);
      std::swap(made, leaving);
    });
    received.wait();
    sent.wait();
    return arrived;
  }

  Tensor gathered(const Tensor& own) {
    const Tensor all = s_.scratch({ring_.size() * own.numel()});
    ring_.all_gather(all, own).wait();
    return all;
  }
  Tensor of_member(const Tensor& all, int member, const Shape& shape) const {
    return all.rows(member * shape.numel(), (member + 1) * shape.numel()).reshape(shape);
  }

  template <class Attend>
  void gather_keys(const Tensor& own, const Attend& attend) {
    const Tensor all = gathered(own);
    for (int i = 0; i < ring_.size(); ++i) attend(i, of_member(all, i, own.shape()));
  }

  template <class Attend>
  Tensor gather_keys_backward(const Tensor& own, const Attend& attend) {
    const Tensor all = gathered(own), d_all = s_.scratch_sums(all.shape());
    const Tensor d_own = s_.scratch_sums(own.shape());
    set_zero(d_all, s_.stream);
    for (int i = 0; i < ring_.size(); ++i)
      attend(i, of_member(all, i, own.shape()), of_member(d_all, i, own.shape()));
    ring_.reduce_scatter(d_own, d_all).wait();
    return d_own;
  }

  Step& s_;
  Group& ring_;
  Ring* way_;
  ConstTensor first_key_;  // [tokens], or empty
  AttentionShape shape_;   // of a pair
  Dropout dropout_;
  std::int64_t sequences_, chunk_;  // tokens of a chunk
};

// A layer's attention: heads are exchanged, and what remains to be shared goes round a ring.
struct SharedAttention {
  SharedAttention(Step& s, const Keys& keys, const AttentionShape& whole, const Dropout& of_p,
                  std::int64_t layer)
      : heads(s, *s.context->grid(layer).heads),
        ring(*s.context->grid(layer).ring),
        way(s.context->grid(layer).way),
        shape(whole),
        dropout(of_p),
        first_key(heads.all(keys.first_key)) {
    const Group& ranks = *s.context->grid(layer).heads;
    shape.q_length = shape.kv_length = shape.kv_stride = whole.q_length * ranks.size();
    shape.heads /= ranks.size();
    shape.kv_heads /= ranks.size();
    shape.first_head += ranks.rank() * shape.heads;
  }
  RingAttention around(Step& s) const { return {s, ring, way, first_key, shape, dropout}; }
  Shape lse_shape() const { return {shape.sequences, shape.heads, shape.q_length}; }

  HeadExchange heads;
  Group& ring;
  Ring* way;
  AttentionShape shape;  // of this rank's heads, over the tokens of its `heads` group
  Dropout dropout;
  ConstTensor first_key;  // of those tokens, or empty
};

}  // namespace

void context_attention_forward(Step& s, const AttentionCore::Saved& found, const Qkv& own,
                               const Keys& seen, const AttentionShape& shape,
                               const Dropout& dropout, std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, seen, shape, dropout, layer);
  const ConstTensor queries = shared.heads.to_heads(own.q), keys = shared.heads.to_heads(own.k),
                    values = shared.heads.to_heads(own.v);
  const Tensor out = shared.heads.room(found.o);
  if (shared.ring.size() > 1)
    shared.around(s).forward(out, found.lse, queries, keys, values);
  else
    attention_forward(out, found.lse.reshape(shared.lse_shape()), queries, keys, values,
                      shared.first_key, shared.shape, dropout, s.stream);
  shared.heads.to_tokens(found.o, out);
}

void context_attention_backward(Step& s, const Qkv& gradients, ConstTensor d_o,
                                const AttentionCore::Saved& found, const Qkv& own, const Keys& seen,
                                const AttentionShape& shape, const Dropout& dropout,
                                std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, seen, shape, dropout, layer);
  HeadExchange& heads = shared.heads;
  const ConstTensor queries = heads.to_heads(own.q), keys = heads.to_heads(own.k),
                    values = heads.to_heads(own.v), out = heads.to_heads(found.o),
                    d_out = heads.to_heads(d_o);
  const Tensor d_queries = heads.room(gradients.q), d_keys = heads.room(gradients.k),
               d_values = heads.room(gradients.v);
  if (shared.ring.size() > 1)
    shared.around(s).backward(d_queries, d_keys, d_values, d_out, out, found.lse, queries, keys,
                              values);
  else
    attention_backward(d_queries, d_keys, d_values, d_out, out,
                       found.lse.reshape(shared.lse_shape()), queries, keys, values,
                       shared.first_key, shared.shape, dropout, s.stream);
  heads.to_tokens(gradients.q, d_queries);
  heads.to_tokens(gradients.k, d_keys);
  heads.to_tokens(gradients.v, d_values);
}

}  // namespace mt
