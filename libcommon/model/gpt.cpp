#include "model/gpt.h"

#include "ops/ops.h"

namespace mt {

// Each block's output is the next one's input, which its backward needs: kept.  Without `saved` all
// blocks write to one buffer in turn.
Tensor Gpt::run_blocks(Step& s, Tensor x, Saved* saved) const {
  if (saved) {
    saved->x = {x};
    saved->blocks.resize(blocks_.size());
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Tensor y = saved ? s.kept(saved, x.shape()) : x;
    const ArenaScope scope(s.layer);
    blocks_[i].forward(s, y, x, saved ? &saved->blocks[i] : nullptr);
    x = y;
    if (saved) saved->x.push_back(x);
  }
  return x;
}

void Gpt::forward(Step& s, Wire& out, const Wire& in, const Batch& batch,
                  Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  Tensor x = s.kept(saved, {s.tokens(), config_.hidden_size});
  if (embedding_)
    embedding_->forward(s, x, batch.ids, saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden, s.stream);
  x = run_blocks(s, x, saved);
  if (!head_) {
    out.hidden = x;
    return;
  }
  const Tensor normed = s.kept(saved, x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  head_->loss(s, batch.loss, normed, batch.labels, batch.row_weight,
              saved ? &saved->head : nullptr);
}

void Gpt::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  const auto gradient = [&] { return s.gradient({s.tokens(), config_.hidden_size}); };
  Tensor dx = gradient();
  if (head_)
    final_norm_->backward(s, dx, saved.head.dx, saved.x.back(), saved.final_norm);
  else
    copy(dx, dout.hidden, s.stream);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    // In place, unless a queued weight gradient still needs dy.
    const Tensor dy = dx;
    if (s.weight_grads.deferring()) dx = gradient();
    const ArenaScope scope(s.layer);
    blocks_[i].backward(s, dx, dy, saved.x[i], saved.blocks[i]);
  }
  if (embedding_)
    embedding_->backward(s, dx, saved.embedding);
  else
    din.hidden = dx;
}

// What the head reads for some of the tokens: [rows, hidden_size].
Tensor Gpt::final_hidden(Step& s, ConstTensor ids, ConstTensor rows) const {
  Tensor x = s.scratch({s.tokens(), config_.hidden_size});
  embedding_->forward(s, x, ids, nullptr);
  x = run_blocks(s, x, nullptr);
  const Tensor picked = s.scratch({rows.numel(), config_.hidden_size});
  embedding_forward(picked, rows, x, false, s.stream);
  const Tensor normed = s.scratch(picked.shape());
  final_norm_->forward(s, normed, picked, nullptr);
  return normed;
}

Tensor Gpt::logits(Step& s, ConstTensor ids, ConstTensor rows, std::int64_t vocab) const {
  const Tensor logits = s.scratch({rows.numel(), vocab});
  const ArenaScope scope(s.layer);
  head_->logits(s, logits, final_hidden(s, ids, rows));
  return logits;
}

void Gpt::score(Step& s, Tensor nll, ConstTensor ids, ConstTensor rows, ConstTensor labels,
                std::int64_t vocab) const {
  const ArenaScope scope(s.layer);
  head_->score(s, nll, final_hidden(s, ids, rows), labels, vocab);
}

}  // namespace mt
