#include "nn/chunked_cross_attention.h"

#include <algorithm>

#include "nn/norm.h"
#include "nn/stack.h"
#include "nn/tensor_parallel.h"
#include "ops/ops.h"

namespace mt {

struct ChunkedCrossAttention::EncoderSaved {
  Stack::Saved stack;
};

namespace {

// Where the tokens of each sequence stand among those of its chunks: `count` of them, from `token`
// on, stand from `place` on.
struct Run {
  std::int64_t token = 0, place = 0, count = 0;
};

// As the encoder sees them, each chunk's own.
std::vector<Run> own_runs(std::int64_t length, std::int64_t chunk) {
  const std::int64_t shorter = length % chunk;
  if (shorter == 0) return {{0, 0, length}};
  return {{0, 0, shorter}, {shorter, chunk, length - shorter}};
}

// As they attend, those that see the neighbours of a chunk together.
std::vector<Run> attending_runs(std::int64_t length, std::int64_t chunk) {
  const std::int64_t skipped = (length - 1) % chunk;
  return {{skipped, 0, length - skipped}};
}

bool retrieves(const Step& s) { return s.neighbours.embedded || s.neighbours.encoded; }

void copy_residual(Step& s, Tensor y, ConstTensor residual) {
  if (residual)
    copy(y, residual, s.stream);
  else
    set_zero(y, s.stream);
}

// All rows of the Step's tokens, gathered where ranks share them, in `layer`.
ConstTensor all_rows(Step& s, ConstTensor rows) {
  if (!s.shares_rows()) return rows;
  const Tensor all = s.scratch({s.tokens.count(), rows.shape()[1]});
  gather_rows(s, all, rows).wait();
  return all;
}

// Calls move(to, from) for the rows of this rank that a run has, of which `all` are of the Step
// `from`, and `own` of the Step `to`.
template <class Move>
void for_each_run(const Step& to, const Tensor& own, const Step& from, const ConstTensor& all,
                  const std::vector<Run>& runs, bool into_chunks, const Move& move) {
  const std::int64_t sequences = std::min(to.tokens.sequences, from.tokens.sequences),
                     to_length = to.tokens.count() / sequences,
                     from_length = from.tokens.count() / sequences;
  for (std::int64_t i = 0; i < sequences; ++i)
    for (const Run& run : runs) {
      const std::int64_t target = i * to_length + (into_chunks ? run.place : run.token),
                         source = i * from_length + (into_chunks ? run.token : run.place),
                         begin = std::max(target, to.first_row()),
                         end = std::min(target + run.count, to.first_row() + to.rows());
      if (begin >= end) continue;
      move(own.rows(begin - to.first_row(), end - to.first_row()),
           all.rows(source + begin - target, source + end - target));
    }
}

// `out`, rows of the chunks' tokens; zeroes where none stands.
void into_chunks(Step& chunks, Tensor out, Step& s, ConstTensor x, const std::vector<Run>& runs) {
  const ArenaScope scope(s.layer);
  const ConstTensor all = all_rows(s, x);
  set_zero(out, s.stream);
  for_each_run(chunks, out, s, all, runs, true,
               [&](Tensor to, ConstTensor from) { copy(to, from, s.stream); });
}

// y += rows of the chunks' tokens, each where it came from.
void add_from_chunks(Step& s, Tensor y, Step& chunks, ConstTensor x, const std::vector<Run>& runs) {
  const ArenaScope scope(s.layer);
  const ConstTensor all = all_rows(chunks, x);
  for_each_run(s, y, chunks, all, runs, false,
               [&](Tensor to, ConstTensor from) { add(to, to, from, s.stream); });
}

}  // namespace

// The chunks of all sequences as sequences, whose memory is what their neighbours are encoded as.
Step ChunkedCrossAttention::over_chunks(const Step& s) const {
  const std::int64_t chunks =
      (s.tokens.length + chunk_length_ - 1) / chunk_length_ * s.tokens.sequences;
  Step over = s.over({.sequences = chunks,
                      .length = chunk_length_,
                      .positions = {},
                      .causal = false,
                      .stack = s.tokens.stack,
                      .of_sample = chunks / s.tokens.sequences});
  const Neighbours& all = s.neighbours;
  over.memory = {
      .tokens = {.sequences = chunks, .length = all.tokens.count() / chunks, .positions = {}},
      .hidden = all.encoded,
      .gradient = all.d_encoded};
  over.past = {};
  return over;
}

void ChunkedCrossAttention::encode(Step& s, ConstTensor x, Saved* saved) const {
  const ArenaScope scope(s.layer);
  const Neighbours& all = s.neighbours;
  Step chunks = over_chunks(s), encoder = s.over(all.tokens);
  const Tensor own = chunks.scratch({chunks.rows(), x.shape()[1]});
  into_chunks(chunks, own, s, x, own_runs(s.tokens.length, chunk_length_));
  encoder.memory = {.tokens = chunks.tokens, .hidden = own, .gradient = {}};
  encoder.past = {};
  Tensor read = all.embedded;
  if (saved) {
    saved->encoder = std::make_shared<EncoderSaved>();
  } else {  // the stack writes over what it reads
    read = s.scratch(all.embedded.shape());
    copy(read, all.embedded, s.stream);
  }
  const Tensor made = encoder_->forward(encoder, read, saved ? &saved->encoder->stack : nullptr);
  copy(all.encoded, made, s.stream);
}

void ChunkedCrossAttention::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x,
                                    Saved* saved, const Norm* norm, ConstTensor /*ahead*/) const {
  if (!retrieves(s)) {
    if (y) copy_residual(s, y, residual);
    return;
  }
  const ArenaScope scope(s.layer);
  if (norm != nullptr) {
    const Tensor normed = s.scratch(x.shape());
    norm->forward(s, normed, x, nullptr);
    x = normed;
  }
  if (encoder_) encode(s, x, saved);
  Step chunks = over_chunks(s);
  const Shape shape{chunks.rows(), x.shape()[1]};
  const Tensor read = chunks.scratch(shape), made = y ? chunks.scratch(shape) : Tensor();
  const std::vector<Run> runs = attending_runs(s.tokens.length, chunk_length_);
  into_chunks(chunks, read, s, x, runs);
  attention_.forward(chunks, made, {}, read, saved ? &saved->attention : nullptr);
  if (!y) return;
  copy_residual(s, y, residual);
  add_from_chunks(s, y, chunks, made, runs);
}

void ChunkedCrossAttention::encode_backward(Step& s, Tensor dx, ConstTensor x,
                                            const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Neighbours& all = s.neighbours;
  const std::vector<Run> runs = own_runs(s.tokens.length, chunk_length_);
  Step chunks = over_chunks(s), encoder = s.over(all.tokens);
  const Shape shape{chunks.rows(), x.shape()[1]};
  const Tensor own = chunks.gradient(shape), d_own = chunks.scratch(shape);
  into_chunks(chunks, own, s, x, runs);
  set_zero(d_own, s.stream);
  encoder.memory = {.tokens = chunks.tokens, .hidden = own, .gradient = d_own};
  const Tensor d_encoded = s.gradient(all.d_encoded.shape());
  copy(d_encoded, all.d_encoded, s.stream);
  copy(all.d_embedded, encoder_->backward(encoder, d_encoded, v.encoder->stack), s.stream);
  add_from_chunks(s, dx, chunks, d_own, runs);
}

void ChunkedCrossAttention::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                                     const Saved& v) const {
  if (!retrieves(s)) return set_zero(dx, s.stream);
  const ArenaScope scope(s.layer);
  const std::vector<Run> runs = attending_runs(s.tokens.length, chunk_length_);
  Step chunks = over_chunks(s);
  const Shape shape{chunks.rows(), x.shape()[1]};
  const Tensor read = chunks.gradient(shape), d_made = chunks.gradient(shape),
               d_read = chunks.scratch(shape);
  into_chunks(chunks, read, s, x, runs);
  into_chunks(chunks, d_made, s, dy, runs);
  attention_.backward(chunks, d_read, d_made, read, v.attention);
  set_zero(dx, s.stream);
  add_from_chunks(s, dx, chunks, d_read, runs);
  if (encoder_) encode_backward(s, dx, x, v);
}

}  // namespace mt
