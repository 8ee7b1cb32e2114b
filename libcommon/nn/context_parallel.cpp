#include "nn/context_parallel.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace mt {

// --- Who has what
// ---------------------------------------------------------------------------------

ContextParallel::ContextParallel(Group& ranks, std::vector<ContextComm> comm, int neighbours)
    : ranks_(ranks), comm_(std::move(comm)), alone_(make_single_group()) {
  if (std::ranges::count(comm_, ContextComm::a2a_p2p) == 0) return;
  std::vector<int> near, far;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank / neighbours == ranks.rank() / neighbours) near.push_back(rank);
    if (rank % neighbours == ranks.rank() % neighbours) far.push_back(rank);
  }
  neighbours_ = ranks.split(near);
  rings_ = ranks.split(far);
}

ContextParallel::Grid ContextParallel::grid(std::int64_t layer) const {
  if (comm(layer) == ContextComm::a2a) return {.heads = &ranks_, .ring = alone_.get()};
  if (comm(layer) == ContextComm::a2a_p2p)
    return {.heads = neighbours_.get(), .ring = rings_.get()};
  return {.heads = alone_.get(), .ring = &ranks_};
}

std::int64_t whole_length(const Step& s) {
  return s.seq_length * (s.context != nullptr ? s.context->size() : 1);
}

// The positions at which a rank's two chunks begin.
static std::array<std::int64_t, 2> chunk_starts(const Step& s, int rank) {
  const std::int64_t chunk = s.seq_length / 2, chunks = 2 * s.context->size();
  return {rank * chunk, (chunks - 1 - rank) * chunk};
}

std::vector<TokenRun> token_runs(const Step& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t chunk = s.seq_length / 2;
  const auto starts = chunk_starts(s, s.context->rank());
  std::vector<TokenRun> runs;
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t sequence = row / s.seq_length, in_chunk = row % chunk;
    const std::int64_t until = std::min(end, row - in_chunk + chunk);
    const std::int64_t position =
        starts[static_cast<std::size_t>(row % s.seq_length / chunk)] + in_chunk;
    runs.push_back({row - begin, until - begin, sequence * whole_length(s) + position});
    row = until;
  }
  return runs;
}

// --- What depends on a token's place ------------------------------------------------------------

static ConstTensor rows_or_empty(const ConstTensor& tensor, const TokenRun& run) {
  return tensor ? tensor.rows(run.begin, run.end) : ConstTensor();
}

void add_dropout(Step& s, Tensor y, ConstTensor residual, ConstTensor x, ConstTensor bias,
                 const Dropout& dropout) {
  if (s.context == nullptr || dropout.p == 0)
    return bias_dropout_add(y, residual, x, bias, dropout, s.stream);
  Dropout placed = dropout;
  placed.seq_length = whole_length(s);
  for (const TokenRun& run : token_runs(s, s.first_row(), s.first_row() + s.rows())) {
    placed.first_row = run.first;
    bias_dropout_add(y.rows(run.begin, run.end), rows_or_empty(residual, run),
                     x.rows(run.begin, run.end), bias, placed, s.stream);
  }
}

void add_dropout_backward(Step& s, Tensor dx, ConstTensor dy, const Dropout& dropout) {
  if (s.context == nullptr || dropout.p == 0) return dropout_backward(dx, dy, dropout, s.stream);
  add_dropout(s, dx, {}, dy, {}, dropout);
}

void turn_tokens(Step& s, Tensor x, Rope problem, bool inverse) {
  if (s.context == nullptr) return rope(x, problem, inverse, s.stream);
  problem.seq_length = whole_length(s);
  for (const TokenRun& run : token_runs(s, 0, s.tokens())) {
    problem.first_position = run.first % whole_length(s);
    rope(x.rows(run.begin, run.end), problem, inverse, s.stream);
  }
}

// --- Attention ----------------------------------------------------------------------------------

namespace {

// One layer's attention: heads that this rank computes, over the tokens of its `heads` group.
class SharedAttention {
 public:
  SharedAttention(Step& s, const AttentionShape& shape, const Dropout& dropout, std::int64_t layer)
      : s_(s),
        heads_(*s.context->grid(layer).heads),
        ring_(*s.context->grid(layer).ring),
        gathers_(s.context->comm(layer) == ContextComm::all_gather),
        shape_(shape),
        dropout_(dropout),
        chunk_(s.seq_length / 2),
        chunks_(2 * heads_.size()),
        tokens_(s.tokens() * heads_.size()) {
    shape_.sequences = 1;
    shape_.q_length = shape_.kv_length = shape_.kv_stride = chunk_;
    shape_.heads /= heads_.size();
    shape_.kv_heads /= heads_.size();
    shape_.first_head += heads_.rank() * shape_.heads;
    if (s.first_key) first_key_ = exchange(s.first_key);
  }

  void forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v) {
    const ArenaScope scope(s_.layer);
    const Tensor sums = lse.reshape({s_.sequences * chunks_, shape_.heads, chunk_});
    const ConstTensor queries = exchange_heads(q);
    const Tensor keys = keys_and_values(k, v);
    const Tensor out = heads_.size() > 1 ? s_.scratch(queries.shape()) : o;
    set_zero(out, s_.stream);
    fill(sums, -std::numeric_limits<double>::infinity(), s_.stream);
    const auto attend = [&](int source, const Tensor& theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_forward(of_queries(out, pair), sums.rows(pair.row, pair.row + 1),
                               of_queries(queries, pair), of_keys(theirs, 0, pair),
                               of_keys(theirs, 1, pair), first_keys(pair), shape_, pair.range,
                               dropout_, s_.stream);
      });
    };
    if (gathers_)
      gather_keys(keys, attend);
    else
      pass_keys(keys, attend);
    if (heads_.size() > 1) return_heads(o, out);
  }

  void backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                ConstTensor q, ConstTensor k, ConstTensor v) {
    const ArenaScope scope(s_.layer);
    const ConstTensor sums = lse.reshape({s_.sequences * chunks_, shape_.heads, chunk_});
    const ConstTensor queries = exchange_heads(q), out = exchange_heads(o),
                      d_out = exchange_heads(d_o);
    const Tensor keys = keys_and_values(k, v);
    const Tensor d_queries = heads_.size() > 1 ? s_.scratch(queries.shape()) : dq;
    set_zero(d_queries, s_.stream);
    const auto attend = [&](int source, const Tensor& theirs, const Tensor& d_theirs) {
      for_pairs(source, [&](const Pair& pair) {
        attention_part_backward(
            of_queries(d_queries, pair), of_keys(d_theirs, 0, pair), of_keys(d_theirs, 1, pair),
            of_queries(d_out, pair), of_queries(out, pair), sums.rows(pair.row, pair.row + 1),
            of_queries(queries, pair), of_keys(theirs, 0, pair), of_keys(theirs, 1, pair),
            first_keys(pair), shape_, pair.range, dropout_, s_.stream);
      });
    };
    const Tensor d_keys =
        gathers_ ? gather_keys_backward(keys, attend) : pass_keys_backward(keys, attend);
    if (heads_.size() > 1) {
      return_heads(dq, d_queries);
      return_heads(dk, d_keys.rows(0, 1));
      return_heads(dv, d_keys.rows(1, 2));
    } else {
      copy(dk, d_keys.rows(0, 1).reshape(dk.shape()), s_.stream);
      copy(dv, d_keys.rows(1, 2).reshape(dv.shape()), s_.stream);
    }
  }

 private:
  // A chunk of queries and one of keys, of one sequence.
  struct Pair {
    std::int64_t row = 0, key_row = 0;  // among the chunks of all sequences
    AttentionRange range = {};
  };

  // What a member of the ring has, chunk by chunk, in the order of its `heads` group.
  std::vector<std::int64_t> starts(int member) const {
    std::vector<std::int64_t> all;
    for (int i = 0; i < heads_.size(); ++i)
      for (const std::int64_t start : chunk_starts(s_, member * heads_.size() + i))
        all.push_back(start);
    return all;
  }

  template <class Body>
  void for_pairs(int source, const Body& body) const {
    const std::vector<std::int64_t> queries = starts(ring_.rank()), keys = starts(source);
    for (std::int64_t sequence = 0; sequence < s_.sequences; ++sequence)
      for (std::int64_t i = 0; i < chunks_; ++i)
        for (std::int64_t j = 0; j < chunks_; ++j) {
          const std::int64_t query = queries[static_cast<std::size_t>(i)];
          const std::int64_t key = keys[static_cast<std::size_t>(j)];
          if (key <= query)  // the others come after all queries
            body(Pair{.row = sequence * chunks_ + i,
                      .key_row = sequence * chunks_ + j,
                      .range = {.sequence = sequence, .query = query, .key = key}});
        }
  }

  // Of tensors [tokens, heads, head_dim], and of keys and values [2, tokens, kv_heads, head_dim].
  template <class AnyTensor>
  AnyTensor of_queries(const AnyTensor& tensor, const Pair& pair) const {
    return tensor.rows(pair.row * chunk_, (pair.row + 1) * chunk_);
  }
  Tensor of_keys(const Tensor& keys, std::int64_t which, const Pair& pair) const {
    return keys.rows(which, which + 1)
        .reshape({tokens_, shape_.kv_heads, shape_.head_dim})
        .rows(pair.key_row * chunk_, (pair.key_row + 1) * chunk_);
  }
  ConstTensor first_keys(const Pair& pair) const {
    return first_key_ ? of_queries(first_key_, pair) : ConstTensor();
  }

  // What each rank of the `heads` group has of its tokens, [tokens, …], for all of the group's.
  ConstTensor exchange(ConstTensor own) {
    const int ranks = heads_.size();
    if (ranks == 1) return own;
    const Tensor all = s_.layer.alloc(own.dtype(), {ranks * own.numel()});
    const Tensor ordered = s_.layer.alloc(own.dtype(), {tokens_});
    heads_.all_gather(all, own).wait();
    swap_axes(ordered, all, ranks, s_.sequences, s_.stream);
    return ordered;
  }

  // From all heads of own tokens to own heads of all tokens, and back.
  ConstTensor exchange_heads(ConstTensor own) {
    const int ranks = heads_.size();
    if (ranks == 1) return own;
    const Shape parts{tokens_, own.shape()[1] / ranks, own.shape()[2]};
    const Tensor by_rank = s_.scratch(parts), arrived = s_.scratch(parts);
    swap_axes(by_rank, own, s_.tokens(), ranks, s_.stream);
    heads_.all_to_all(arrived, by_rank).wait();
    swap_axes(by_rank, arrived, ranks, s_.sequences, s_.stream);
    return by_rank;
  }
  void return_heads(Tensor own, ConstTensor parts) {
    const ArenaScope scope(s_.layer);
    const int ranks = heads_.size();
    const Tensor by_rank = s_.scratch(parts.shape()), arrived = s_.scratch(parts.shape());
    swap_axes(by_rank, parts, s_.sequences, ranks, s_.stream);
    heads_.all_to_all(arrived, by_rank).wait();
    swap_axes(own, arrived, ranks, s_.tokens(), s_.stream);
  }

  Tensor keys_and_values(ConstTensor k, ConstTensor v) {
    const Tensor both = s_.scratch({2, tokens_, shape_.kv_heads, shape_.head_dim});
    const auto put = [&](std::int64_t which, ConstTensor own) {
      const ArenaScope scope(s_.layer);
      const Tensor to = both.rows(which, which + 1);
      copy(to, exchange_heads(own).reshape(to.shape()), s_.stream);
    };
    put(0, k);
    put(1, v);
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
  Group &heads_, &ring_;
  bool gathers_;
  AttentionShape shape_;  // of a pair
  Dropout dropout_;
  std::int64_t chunk_, chunks_, tokens_;  // tokens of a chunk, chunks of a sequence, tokens of all
  ConstTensor first_key_;                 // [tokens], or empty
};

}  // namespace

void context_attention_forward(Step& s, Tensor o, Tensor lse, ConstTensor q, ConstTensor k,
                               ConstTensor v, const AttentionShape& shape, const Dropout& dropout,
                               std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention(s, shape, dropout, layer).forward(o, lse, q, k, v);
}

void context_attention_backward(Step& s, Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o,
                                ConstTensor o, ConstTensor lse, ConstTensor q, ConstTensor k,
                                ConstTensor v, const AttentionShape& shape, const Dropout& dropout,
                                std::int64_t layer) {
  const ArenaScope scope(s.layer);
  SharedAttention(s, shape, dropout, layer).backward(dq, dk, dv, d_o, o, lse, q, k, v);
}

}  // namespace mt
