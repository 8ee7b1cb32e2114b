#include "model/families/gpt.h"

#include "model/config/model_config.h"
#include "model/families/answer.h"
#include "ops/ops.h"

namespace mt {

WireShapes Gpt::wire(const Step& s, const Fields&, Side) const {
  return {Shape{s.rows(), config_->hidden_size}};
}

void Gpt::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                  Model::Saved* slot) const {
  if (ends.further > 0) {
    find_angles(s, rotary_);
    return answer(s, ends, further_->guess(s, ends.further, batch[Field::ids]), {}, nullptr,
                  *head_);
  }
  auto* saved = static_cast<Saved*>(slot);
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (chunk(s).range.first)
    embedding_->forward(s, x, batch[Field::ids], {}, saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  find_angles(s, rotary_);
  x = chunk(s).stack.forward(s, x, saved ? &saved->stack : nullptr);
  if (!chunk(s).range.last) {
    out.hidden() = x;
    return;
  }
  if (task_) {
    const Tensor normed = s.scratch(x.shape());
    final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
    const Tensor scores =
        task_->forward(s, normed, {.rows = batch[Field::rows], .row_of = batch[Field::row_of]},
                       saved ? &saved->task : nullptr);
    ends.take_scores(scores, batch, saved != nullptr, s.stream);
    if (saved) saved->y = x;
    return;
  }
  if (further_ && further_->followed(s) > 0) {
    const ArenaScope scope(s.layer);
    const Tensor normed = s.scratch(x.shape());
    final_norm_->forward(s, normed, x, nullptr);
    further_->follow(s, normed, batch[Field::ids]);
  }
  if (ends.hidden && !ends.rows) return final_norm_->forward(s, ends.hidden, x, nullptr);
  if (ends.rows) return answer(s, ends, x, batch[Field::labels], &*final_norm_, *head_);
  const Tensor normed = s.kept(saved, x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  if (saved) saved->y = x;
  if (ends.teaching)
    return head_->distill(s, ends.loss, normed, batch[Field::labels], ends.weight, *ends.teaching,
                          saved ? &saved->head : nullptr);
  if (value_)
    find_losses(s, ends, normed, batch, *head_, saved ? &saved->head : nullptr, *value_,
                saved ? &saved->value : nullptr);
  else
    find_losses(s, ends, normed, batch, *head_, saved ? &saved->head : nullptr);
  if (further_ && ends.further_loss)
    further_->forward(s, normed,
                      {.ids = batch[Field::further_ids],
                       .labels = batch[Field::further_labels],
                       .weight = batch[Field::further_weight],
                       .loss = ends.further_loss},
                      saved ? &saved->further : nullptr);
}

void Gpt::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (chunk(s).range.last) {
    const ArenaScope scope(s.layer);
    Tensor d_normed = saved.head.dx;
    if (!saved.further.depths.empty()) d_normed = further_->backward(s, d_normed, saved.further);
    if (task_) {
      d_normed = s.scratch(dx.shape());
      task_->backward(s, d_normed, saved.task);
    }
    if (value_) {
      const Tensor sum = s.scratch(dx.shape());
      value_->backward(s, sum, d_normed, saved.value);
      d_normed = sum;
    }
    final_norm_->backward(s, dx, d_normed, saved.y, saved.final_norm);
    s.complete(head_rows_);
    if (copies_words_) s.complete(embedding_rows_);
  } else {
    copy(dx, dout.hidden(), s.stream);
  }
  dx = chunk(s).stack.backward(s, dx, saved.stack);
  if (chunk(s).range.first) {
    embedding_->backward(s, dx, saved.embedding);
    s.complete(embedding_rows_);
  } else {
    din.hidden() = dx;
  }
}

}  // namespace mt
