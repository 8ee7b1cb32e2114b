#include "nn/context_parallel.h"

#include <algorithm>
#include <utility>

#include "ops/ops.h"

namespace mt {

// --- Who has what -------------------------------------------------------------------------------

ContextParallel::ContextParallel(Group& ranks, std::vector<ContextComm> comm, int neighbours,
                                 const Tensor& memory)
    : ranks_(ranks), comm_(std::move(comm)), alone_(make_single_group()) {
  std::vector<int> all, near, far;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    all.push_back(rank);
    if (rank / neighbours == ranks.rank() / neighbours) near.push_back(rank);
    if (rank % neighbours == ranks.rank() % neighbours) far.push_back(rank);
  }
  if (std::ranges::count(comm_, ContextComm::p2p) > 0) {
    whole_ring_ = ranks.split(all);
    copies_ = whole_ring_->reach(memory);
  }
  if (std::ranges::count(comm_, ContextComm::a2a_p2p) == 0) return;
  neighbours_ = ranks.split(near);
  rings_ = ranks.split(far);
  copies_ = rings_->reach(memory) || copies_;
}

ContextParallel::Grid ContextParallel::grid(std::int64_t layer) const {
  if (comm(layer) == ContextComm::a2a) return {&ranks_, alone_.get(), false};
  if (comm(layer) == ContextComm::a2a_p2p) return {neighbours_.get(), rings_.get(), true};
  if (comm(layer) == ContextComm::p2p) return {alone_.get(), whole_ring_.get(), true};
  return {alone_.get(), &ranks_, false};
}

std::int64_t whole_length(const Step& s) {
  return s.tokens.length * (s.context != nullptr ? s.context->size() : 1);
}

std::array<std::int64_t, 2> chunk_starts(std::int64_t chunk, int ranks, int rank) {
  return {rank * chunk, (2 * ranks - 1 - rank) * chunk};
}

std::vector<TokenRun> token_runs(const Step& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t chunk = s.tokens.length / 2;
  const auto starts = chunk_starts(chunk, s.context->size(), s.context->rank());
  std::vector<TokenRun> runs;
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t sequence = row / s.tokens.length, in_chunk = row % chunk;
    const std::int64_t until = std::min(end, row - in_chunk + chunk);
    const std::int64_t position =
        starts[static_cast<std::size_t>(row % s.tokens.length / chunk)] + in_chunk;
    runs.push_back({row - begin, until - begin, sequence * whole_length(s) + position});
    row = until;
  }
  return runs;
}

ConstTensor of_whole_sequences(Step& s, ConstTensor of_tokens) {
  const int ranks = s.context->size();
  const std::int64_t count = s.tokens.count(), length = s.tokens.length, chunk = length / 2;
  const Tensor gathered = s.layer.alloc(DType::i32, {ranks * count}),
               whole = s.layer.alloc(DType::i32, gathered.shape());
  s.context->ranks().all_gather(gathered, of_tokens).wait();
  for (int rank = 0; rank < ranks; ++rank) {
    const auto starts = chunk_starts(chunk, ranks, rank);
    for (std::int64_t row = 0; row < count; row += chunk) {
      const std::int64_t from = rank * count + row,
                         to = row / length * whole_length(s) +
                              starts[static_cast<std::size_t>(row % length / chunk)];
      copy(whole.rows(to, to + chunk), gathered.rows(from, from + chunk), s.stream);
    }
  }
  return whole;
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

ConstTensor dropped_gradient(Step& s, ConstTensor dy, const Dropout& dropout) {
  if (dropout.p == 0) return dy;
  const Tensor dx = s.gradient(dy.shape());
  add_dropout_backward(s, dx, dy, dropout);
  return dx;
}

void turn_tokens(Step& s, Tensor x, Rope problem, bool inverse) {
  if (s.context == nullptr) return rope(x, problem, inverse, s.stream);
  problem.seq_length = whole_length(s);
  for (const TokenRun& run : token_runs(s, 0, s.tokens.count())) {
    problem.first_position = run.first % whole_length(s);
    rope(x.rows(run.begin, run.end), problem, inverse, s.stream);
  }
}

}  // namespace mt
