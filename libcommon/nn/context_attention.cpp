#include <limits>
#include <utility>
#include <vector>

#include "nn/context_parallel.h"
#include "nn/head_exchange.h"

namespace mt {
namespace {

// Tokens of some heads over those of a ring's members, of whom each has two chunks of a sequence.
// Memory is the layer arena's, until the caller rewinds it.
class RingAttention {
 public:
  // shape: of a member's tokens.
  RingAttention(Step& s, Group& ring, bool gathers, ConstTensor first_key,
                const AttentionShape& shape, const Dropout& dropout)
      : s_(s),
        ring_(ring),
        gathers_(gathers),
        first_key_(first_key),
        shape_(shape),
        dropout_(dropout),
        sequences_(shape.sequences),
        chunk_(shape.q_length / 2) {
    shape_.sequences = 1;
    shape_.q_length = shape_.kv_length = shape_.kv_stride = chunk_;
  }

  void forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v) {
    const Tensor sums = lse.reshape({2 * sequences_, shape_.heads, chunk_});
    set_zero(o, s_.stream);
    fill(sums, -std::numeric_limits<double>::infinity(), s_.stream);
    const auto attend = [&](int source, const Tensor& theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_forward(of_queries(o, pair), sums.rows(pair.row, pair.row + 1),
                               of_queries(q, pair), of_keys(theirs, 0, pair),
                               of_keys(theirs, 1, pair), first_keys(pair), shape_, pair.range,
                               dropout_, s_.stream);
      });
    };
    const Tensor keys = keys_and_values(k, v);
    if (gathers_)
      gather_keys(keys, attend);
    else
      pass_keys(keys, attend);
  }

  void backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                ConstTensor q, ConstTensor k, ConstTensor v) {
    const ConstTensor sums = lse.reshape({2 * sequences_, shape_.heads, chunk_});
    set_zero(dq, s_.stream);
    const auto attend = [&](int source, const Tensor& theirs, const Tensor& d_theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_backward(
            of_queries(dq, pair), of_keys(d_theirs, 0, pair), of_keys(d_theirs, 1, pair),
            of_queries(d_o, pair), of_queries(o, pair), sums.rows(pair.row, pair.row + 1),
            of_queries(q, pair), of_keys(theirs, 0, pair), of_keys(theirs, 1, pair),
            first_keys(pair), shape_, pair.range, dropout_, s_.stream);
      });
    };
    const Tensor keys = keys_and_values(k, v);
    const Tensor d_keys =
        gathers_ ? gather_keys_backward(keys, attend) : pass_keys_backward(keys, attend);
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

  // Of tensors [tokens, heads, head_dim], and of keys and values [2, tokens, kv_heads, head_dim].
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
    Tensor next = ring_.size() > 1 ? s_.scratch(now.shape()) : now;
    for (int i = 0; i < ring_.size(); ++i) {
      Pending sent, received;
      if (i + 1 < ring_.size()) {
        sent = ring_.send(now, member(-1));
        received = ring_.receive(next, member(1));
      }
      attend(member(i), now);
      received.wait();
      sent.wait();
      std::swap(now, next);
    }
  }

  // Gradients follow the keys that they are of, and go one step further, home.
  template <class Attend>
  Tensor pass_keys_backward(Tensor now, const Attend& attend) {
    const bool alone = ring_.size() == 1;
    Tensor next = alone ? now : s_.scratch(now.shape()), d_now = s_.scratch(now.shape());
    Tensor d_next = alone ? d_now : s_.scratch(now.shape());
    set_zero(d_now, s_.stream);
    for (int i = 0; i < ring_.size(); ++i) {
      Pending sent, received;
      if (i + 1 < ring_.size()) {
        sent = ring_.send(now, member(-1));
        received = ring_.receive(next, member(1));
      }
      attend(member(i), now, d_now);
      received.wait();
      sent.wait();
      std::swap(now, next);
      if (alone) break;
      Pending d_sent = ring_.send(d_now, member(-1));
      ring_.receive(d_next, member(1)).wait();
      d_sent.wait();
      std::swap(d_now, d_next);
    }
    return d_now;
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
    const Tensor all = gathered(own), d_all = s_.scratch(all.shape());
    const Tensor d_own = s_.scratch(own.shape());
    set_zero(d_all, s_.stream);
    for (int i = 0; i < ring_.size(); ++i)
      attend(i, of_member(all, i, own.shape()), of_member(d_all, i, own.shape()));
    ring_.reduce_scatter(d_own, d_all).wait();
    return d_own;
  }

  Step& s_;
  Group& ring_;
  bool gathers_;
  ConstTensor first_key_;  // [tokens], or empty
  AttentionShape shape_;   // of a pair
  Dropout dropout_;
  std::int64_t sequences_, chunk_;  // tokens of a chunk
};

// A layer's attention: heads are exchanged, and what remains to be shared goes round a ring.
struct SharedAttention {
  SharedAttention(Step& s, const AttentionShape& whole, const Dropout& of_p, std::int64_t layer)
      : heads(s, *s.context->grid(layer).heads),
        ring(*s.context->grid(layer).ring),
        gathers(s.context->comm(layer) == ContextComm::all_gather),
        shape(whole),
        dropout(of_p),
        first_key(heads.all(s.first_key)) {
    const Group& ranks = *s.context->grid(layer).heads;
    shape.q_length = shape.kv_length = shape.kv_stride = whole.q_length * ranks.size();
    shape.heads /= ranks.size();
    shape.kv_heads /= ranks.size();
    shape.first_head += ranks.rank() * shape.heads;
  }
  RingAttention around(Step& s) const { return {s, ring, gathers, first_key, shape, dropout}; }
  Shape lse_shape() const { return {shape.sequences, shape.heads, shape.q_length}; }

  HeadExchange heads;
  Group& ring;
  bool gathers;
  AttentionShape shape;  // of this rank's heads, over the tokens of its `heads` group
  Dropout dropout;
  ConstTensor first_key;  // of those tokens, or empty
};

}  // namespace

void context_attention_forward(Step& s, Tensor o, Tensor lse, ConstTensor q, ConstTensor k,
                               ConstTensor v, const AttentionShape& shape, const Dropout& dropout,
                               std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, shape, dropout, layer);
  const ConstTensor queries = shared.heads.to_heads(q), keys = shared.heads.to_heads(k),
                    values = shared.heads.to_heads(v);
  const Tensor out = shared.heads.room(o);
  if (shared.ring.size() > 1)
    shared.around(s).forward(out, lse, queries, keys, values);
  else
    attention_forward(out, lse.reshape(shared.lse_shape()), queries, keys, values, shared.first_key,
                      shared.shape, dropout, s.stream);
  shared.heads.to_tokens(o, out);
}

void context_attention_backward(Step& s, Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o,
                                ConstTensor o, ConstTensor lse, ConstTensor q, ConstTensor k,
                                ConstTensor v, const AttentionShape& shape, const Dropout& dropout,
                                std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, shape, dropout, layer);
  HeadExchange& heads = shared.heads;
  const ConstTensor queries = heads.to_heads(q), keys = heads.to_heads(k),
                    values = heads.to_heads(v), out = heads.to_heads(o),
                    d_out = heads.to_heads(d_o);
  const Tensor d_queries = heads.room(dq), d_keys = heads.room(dk), d_values = heads.room(dv);
  if (shared.ring.size() > 1)
    shared.around(s).backward(d_queries, d_keys, d_values, d_out, out, lse, queries, keys, values);
  else
    attention_backward(d_queries, d_keys, d_values, d_out, out, lse.reshape(shared.lse_shape()),
                       queries, keys, values, shared.first_key, shared.shape, dropout, s.stream);
  heads.to_tokens(dq, d_queries);
  heads.to_tokens(dk, d_keys);
  heads.to_tokens(dv, d_values);
}

}  // namespace mt
