#include "model/families/gpt.h"

#include "model/config/model_config.h"
#include "ops/ops.h"

namespace mt {

// Each run's output is the next one's input, which its backward needs: kept.  Blocks of one run,
// and without `saved` all, write to one buffer in turn.
Tensor Gpt::run_blocks(Step& s, Tensor x, Saved* saved) const {
  const std::vector<Block>& blocks = chunk(s).blocks;
  if (saved) {
    saved->x = {x};
    saved->blocks.resize(blocks.size());
  }
  for (const RecomputeOptions::Run& run : chunk(s).runs) {
    const Tensor y = saved ? s.kept(saved, x.shape()) : x;
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const NamedRange range("layer ", chunk(s).range.begin + static_cast<std::int64_t>(i));
      const ArenaScope scope(s.layer);
      blocks[i].forward(s, y, x, saved && !run.again ? &saved->blocks[i] : nullptr);
      x = y;
    }
    if (saved) saved->x.push_back(x);
  }
  return x;
}

// The forward of a run once more, now keeping what its backward needs.  Its output is known.
Gpt::Again Gpt::run_again(Step& s, const RecomputeOptions::Run& run, Tensor x) const {
  Step repeated = s;
  repeated.again = true;
  Again again;
  again.blocks.resize(run.end - run.begin);
  for (std::size_t i = run.begin; i < run.end; ++i) {
    again.x.push_back(x);
    const Tensor y = i + 1 < run.end ? repeated.kept(&again, x.shape()) : Tensor();
    const NamedRange range("layer ", chunk(s).range.begin + static_cast<std::int64_t>(i), " again");
    const ArenaScope scope(s.layer);
    chunk(s).blocks[i].forward(repeated, y, x, &again.blocks[i - run.begin]);
    x = y;
  }
  return again;
}

WireShapes Gpt::wire(std::int64_t rows) const { return {Shape{rows, config_.hidden_size}}; }

void Gpt::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                  Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  Tensor x = s.kept(saved, {s.rows(), config_.hidden_size});
  if (chunk(s).range.first)
    embedding_->forward(s, x, batch[Field::ids], saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  x = run_blocks(s, x, saved);
  if (!chunk(s).range.last) {
    out.hidden() = x;
    return;
  }
  const Tensor normed = s.kept(saved, x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  head_->loss(s, ends.loss, normed, batch[Field::labels], ends.weight,
              saved ? &saved->head : nullptr);
}

// In place, unless a queued weight gradient still needs dy.
Tensor Gpt::block_backward(Step& s, std::size_t i, Tensor dy, ConstTensor x,
                           const Block::Saved& saved) const {
  const Tensor dx = s.weight_grads.deferring() ? s.gradient(dy.shape()) : dy;
  const NamedRange range("layer ", chunk(s).range.begin + static_cast<std::int64_t>(i),
                         " backward");
  const ArenaScope scope(s.layer);
  chunk(s).blocks[i].backward(s, dx, dy, x, saved);
  s.complete(chunk(s).rows[i]);
  return dx;
}

void Gpt::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  Tensor dx = s.gradient({s.rows(), config_.hidden_size});
  if (chunk(s).range.last) {
    final_norm_->backward(s, dx, saved.head.dx, saved.x.back(), saved.final_norm);
    s.complete(head_rows_);
  } else {
    copy(dx, dout.hidden(), s.stream);
  }
  const std::vector<RecomputeOptions::Run>& runs = chunk(s).runs;
  for (std::size_t r = runs.size(); r-- > 0;) {
    const RecomputeOptions::Run& run = runs[r];
    if (!run.again) {
      dx = block_backward(s, run.begin, dx, saved.x[r], saved.blocks[run.begin]);
      continue;
    }
    const ArenaScope scope(s.layer, Arena::End::back);
    const Again again = run_again(s, run, saved.x[r]);
    for (std::size_t i = run.end; i-- > run.begin;)
      dx = block_backward(s, i, dx, again.x[i - run.begin], again.blocks[i - run.begin]);
  }
  if (chunk(s).range.first) {
    embedding_->backward(s, dx, saved.embedding);
    s.complete(embedding_rows_);
  } else {
    din.hidden() = dx;
  }
}

// What the last norm reads for some of the tokens: [rows, hidden_size].
Tensor Gpt::final_hidden(Step& s, ConstTensor ids, ConstTensor rows) const {
  Tensor x = s.scratch({s.tokens(), config_.hidden_size});
  embedding_->forward(s, x, ids, nullptr);
  if (s.past.cache != nullptr && inv_freq_) {
    const Tensor angles = s.scratch_sums({s.tokens(), 2 * inv_freq_.numel()});
    rope_angles(angles, inv_freq_, s.positions, s.stream);
    s.past.angles = angles;
  }
  x = run_blocks(s, x, nullptr);
  if (s.tokens() == 1 && rows.numel() == 1) return x;
  const Tensor picked = s.scratch({rows.numel(), config_.hidden_size});
  embedding_forward(picked, rows, x, 0, false, s.stream);
  return picked;
}

Tensor Gpt::logits(Step& s, ConstTensor ids, ConstTensor rows, std::int64_t vocab) const {
  const Tensor logits = s.scratch_sums({rows.numel(), vocab});
  const ArenaScope scope(s.layer);
  head_->logits(s, logits, final_hidden(s, ids, rows), &*final_norm_);
  return logits;
}

void Gpt::score(Step& s, Tensor nll, ConstTensor ids, ConstTensor rows, ConstTensor labels,
                std::int64_t vocab) const {
  const ArenaScope scope(s.layer);
  const Tensor x = final_hidden(s, ids, rows), normed = s.scratch(x.shape());
  final_norm_->forward(s, normed, x, nullptr);
  head_->score(s, nll, normed, labels, vocab);
}

}  // namespace mt
