#include "nn/context_attention.h"

#include <cassert>
#include <utility>

#include "nn/context_parallel.h"
#include "nn/head_exchange.h"
#include "ops/ops.h"

namespace mt {
namespace {

// Tokens of some heads over those of a ring's members, of whom each has two chunks of a sequence.
// Memory is the layer arena's, until the caller rewinds it.
class RingAttention {
 public:
  // shape: of a member's tokens.  Keys are passed on or gathered.
  RingAttention(Step& s, Group& ring, bool passes, ConstTensor first_key,
                const AttentionShape& shape, const Dropout& dropout)
      : s_(s),
        ring_(ring),
        passes_(passes),
        first_key_(first_key),
        shape_(shape),
        dropout_(dropout),
        sequences_(shape.sequences),
        chunk_(shape.q_length / 2) {
    assert(shape.causal);
    shape_.sequences = 1;
  }

  void forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v) {
    const Tensor out = summed(o);
    const auto attend = [&](int source, const Tensor& theirs) {
      for_meetings(source, [&](const Meeting& m) {
        attention_part_forward(m.of_queries(out), m.of_lse(lse), m.of_queries(q),
                               m.of_keys(half(theirs, 0)), m.of_keys(half(theirs, 1)),
                               m.of_queries(first_key_), m.shape, m.range, dropout_,
                               {.of_queries = source != ring_.rank()}, s_.stream);
      });
    };
    const Tensor keys = keys_and_values(k, v);
    passes_ ? pass_keys(keys, attend) : gather_keys(keys, attend);
    if (out.data() != o.data()) copy(o, out, s_.stream);
  }

  void backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                ConstTensor q, ConstTensor k, ConstTensor v) {
    const Tensor d_queries = summed(dq);
    bool so_far = false;  // whether d_queries holds what some keys give
    const auto attend = [&](int source, const ConstTensor& their_k, const ConstTensor& their_v,
                            const Tensor& d_k, const Tensor& d_v) {
      if (source < ring_.rank())  // second chunks meet no query
        for (const Tensor& d : {d_k, d_v}) zero_chunks(d, 1);
      if (source > ring_.rank() && !so_far) zero_chunks(d_queries, 0);  // they meet no key
      for_meetings(source, [&](const Meeting& m) {
        attention_part_backward(m.of_queries(d_queries), m.of_keys(d_k), m.of_keys(d_v),
                                m.of_queries(d_o), m.of_queries(o), m.of_lse(lse), m.of_queries(q),
                                m.of_keys(their_k), m.of_keys(their_v), m.of_queries(first_key_),
                                m.shape, m.range, dropout_,
                                {.of_queries = so_far, .of_keys = false}, s_.stream);
      });
      so_far = true;
    };
    passes_ ? pass_keys_backward(dk, dv, k, v, attend) : gather_keys_backward(dk, dv, k, v, attend);
    if (d_queries.data() != dq.data()) copy(dq, d_queries, s_.stream);
  }

 private:
  // The queries and keys of one sequence that meet: all of both where they are the same tokens; of
  // a member before this one its first chunk is seen by all queries; the chunks of one after it
  // lie between this one's, and the second sees both.
  struct Meeting {
    std::int64_t query = 0, key = 0, lse = 0;  // where they begin among those of all sequences
    AttentionShape shape = {};
    AttentionRange range = {};

    // Their part of a tensor [tokens, heads, head_dim] or, if it is not empty, [tokens].
    template <class AnyTensor>
    AnyTensor of_queries(const AnyTensor& tensor) const {
      return tensor ? tensor.rows(query, query + shape.q_length) : tensor;
    }
    template <class AnyTensor>
    AnyTensor of_keys(const AnyTensor& tensor) const {
      return tensor.rows(key, key + shape.kv_length);
    }
    template <class AnyTensor>
    AnyTensor of_lse(const AnyTensor& tensor) const {
      const std::int64_t stride = range.lse_stride > 0 ? range.lse_stride : shape.q_length;
      return tensor.reshape({tensor.numel()})
          .rows(lse, lse + (shape.heads - 1) * stride + shape.q_length);
    }
  };

  template <class Body>
  void for_meetings(int source, const Body& body) const {
    const auto queries = chunk_starts(chunk_, ring_.size(), ring_.rank());
    const auto keys = chunk_starts(chunk_, ring_.size(), source);
    const bool second_alone = source > ring_.rank(), first_key_alone = source < ring_.rank();
    for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
      Meeting m{.query = 2 * sequence * chunk_, .key = 2 * sequence * chunk_, .shape = shape_};
      m.lse = m.query * shape_.heads;
      m.range = {.sequence = sequence,
                 .query = queries[0],
                 .key = keys[0],
                 .query_gap = queries[1] - queries[0] - chunk_,
                 .key_gap = keys[1] - keys[0] - chunk_,
                 .chunk = chunk_};
      if (second_alone) {
        m.query += chunk_, m.lse += chunk_;
        m.shape.q_length = chunk_;
        m.range.query = queries[1], m.range.query_gap = 0;
        m.range.lse_stride = 2 * chunk_;
      }
      if (first_key_alone) m.shape.kv_length = m.shape.kv_stride = chunk_;
      body(m);
    }
  }

  // Keys or values, or their gradients: [tokens, kv_heads, head_dim] of both.
  Tensor half(const Tensor& both, std::int64_t which) const {
    return both.rows(which, which + 1)
        .reshape({2 * sequences_ * chunk_, shape_.kv_heads, shape_.head_dim});
  }

  // The first or second chunks of all sequences.
  void zero_chunks(const Tensor& tokens, std::int64_t which) const {
    for (std::int64_t i = which; i < 2 * sequences_; i += 2)
      set_zero(tokens.rows(i * chunk_, (i + 1) * chunk_), s_.stream);
  }

  // What results are summed up in: of two parts the sum is rounded once, whether they are written
  // in the type of the results or in f32; of more than two it is kept in f32 at least.
  DType dtype_of_sums() const { return ring_.size() > 2 ? sum_dtype(s_.dtype) : s_.dtype; }
  Tensor summed(const Tensor& result) const {
    return result.dtype() == dtype_of_sums() ? result : s_.scratch_sums(result.shape());
  }
  Tensor scratch_of_sums(const Shape& shape) const {
    return dtype_of_sums() == s_.dtype ? s_.scratch(shape) : s_.scratch_sums(shape);
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

  // attend(source, keys) for every member's keys, its own first, the next on their way meanwhile.
  template <class Attend>
  void pass_keys(Tensor now, const Attend& attend) {
    Tensor next = s_.scratch(now.shape());
    for (int i = 0; i < ring_.size(); ++i) {
      Pending passed;
      if (i + 1 < ring_.size()) passed = ring_.pass_on(next, now);
      attend(member(i), now);
      passed.wait();
      std::swap(now, next);
    }
  }

  // Gradients of others' keys follow them, a step behind, and in the end go one further, home,
  // while its own queries and keys meet.
  template <class Attend>
  void pass_keys_backward(Tensor dk, Tensor dv, ConstTensor k, ConstTensor v,
                          const Attend& attend) {
    Tensor now = keys_and_values(k, v), next = s_.scratch(now.shape());
    const Tensor made = s_.scratch(now.shape()), arrived = scratch_of_sums(now.shape());
    const Tensor leaving = ring_.size() > 2 ? scratch_of_sums(now.shape()) : made;
    ring_.pass_on(next, now).wait();
    Pending home;
    for (int i = 1; i < ring_.size(); ++i) {
      std::swap(now, next);
      Pending passed;
      if (i + 1 < ring_.size()) passed = ring_.pass_on(next, now);
      attend(member(i), half(now, 0), half(now, 1), half(made, 0), half(made, 1));
      home.wait();
      if (i > 1)
        add(leaving, arrived, made, s_.stream);
      else if (leaving.data() != made.data())
        copy(leaving, made, s_.stream);
      home = ring_.pass_on(arrived, leaving);
      passed.wait();
    }
    attend(ring_.rank(), k, v, dk, dv);
    home.wait();
    add(dk, dk, half(arrived, 0), s_.stream);
    add(dv, dv, half(arrived, 1), s_.stream);
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
    for (int i = 0; i < ring_.size(); ++i)
      attend(member(i), of_member(all, member(i), own.shape()));
  }

  template <class Attend>
  void gather_keys_backward(Tensor dk, Tensor dv, ConstTensor k, ConstTensor v,
                            const Attend& attend) {
    const Tensor own = keys_and_values(k, v);
    const Tensor all = gathered(own), d_all = scratch_of_sums(all.shape());
    const Tensor d_own = scratch_of_sums(own.shape());
    for (int i = 0; i < ring_.size(); ++i) {
      const Tensor theirs = of_member(all, member(i), own.shape()),
                   of_theirs = of_member(d_all, member(i), own.shape());
      attend(member(i), half(theirs, 0), half(theirs, 1), half(of_theirs, 0), half(of_theirs, 1));
    }
    ring_.reduce_scatter(d_own, d_all).wait();
    copy(dk, half(d_own, 0), s_.stream);
    copy(dv, half(d_own, 1), s_.stream);
  }

  Step& s_;
  Group& ring_;
  bool passes_;
  ConstTensor first_key_;  // [tokens], or empty
  AttentionShape shape_;   // of a member's tokens of one sequence
  Dropout dropout_;
  std::int64_t sequences_, chunk_;  // tokens of a chunk
};

// A layer's attention: heads are exchanged, and what remains to be shared goes round a ring.
struct SharedAttention {
  SharedAttention(Step& s, const Keys& keys, const AttentionShape& whole, const Dropout& of_p,
                  std::int64_t layer)
      : heads(s, *s.context->grid(layer).heads),
        ring(*s.context->grid(layer).ring),
        passes(s.context->grid(layer).passes),
        shape(whole),
        dropout(of_p),
        first_key(heads.all(keys.first_key)) {
    const Group& ranks = *s.context->grid(layer).heads;
    shape.q_length = shape.kv_length = shape.kv_stride = whole.q_length * ranks.size();
    shape.heads /= ranks.size();
    shape.kv_heads /= ranks.size();
    shape.first_head += ranks.rank() * shape.heads;
  }
  RingAttention around(Step& s) const { return {s, ring, passes, first_key, shape, dropout}; }
  SinkShape sink_shape() const {
    return {shape.sequences, shape.q_length, shape.heads, shape.head_dim};
  }
  Shape lse_shape() const { return {shape.sequences, shape.heads, shape.q_length}; }

  HeadExchange heads;
  Group& ring;
  bool passes;
  AttentionShape shape;  // of this rank's heads, over the tokens of its `heads` group
  Dropout dropout;
  ConstTensor first_key;  // of those tokens, or empty
};

}  // namespace

void context_attention_forward(Step& s, const AttentionCore::Saved& found, const Qkv& own,
                               const Keys& seen, const AttentionShape& shape,
                               const Dropout& dropout, const AttentionCore::Options& of) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, seen, shape, dropout, of.layer);
  const ConstTensor queries = shared.heads.to_heads(own.q), keys = shared.heads.to_heads(own.k),
                    values = shared.heads.to_heads(own.v);
  const Tensor out = shared.heads.room(found.o);
  if (shared.ring.size() > 1)
    shared.around(s).forward(out, found.lse, queries, keys, values);
  else
    attention_forward(out, found.lse.reshape(shared.lse_shape()), queries, keys, values,
                      shared.first_key, shared.shape, dropout, s.stream);
  of.sink.add(s, out, found.lse, shared.sink_shape(), shared.shape.first_head - of.first_head);
  shared.heads.to_tokens(found.o, out);
}

void context_attention_backward(Step& s, const Qkv& gradients, ConstTensor d_o,
                                const AttentionCore::Saved& found, const Qkv& own, const Keys& seen,
                                const AttentionShape& shape, const Dropout& dropout,
                                const AttentionCore::Options& of) {
  const ArenaScope scope(s.layer);
  SharedAttention shared(s, seen, shape, dropout, of.layer);
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
  of.sink.backward(s, d_out, out, found.lse, shared.sink_shape(),
                   shared.shape.first_head - of.first_head);
  heads.to_tokens(gradients.q, d_queries);
  heads.to_tokens(gradients.k, d_keys);
  heads.to_tokens(gradients.v, d_values);
}

}  // namespace mt
