#include "model/families/answer.h"

#include "nn/asked_rows.h"
#include "ops/ops.h"

namespace mt {

void answer(Step& s, const Ends& ends, ConstTensor x, ConstTensor labels, const Norm* final_norm,
            const LmHead& head) {
  if (s.tokens.count() > 1 || ends.rows.numel() > 1) {
    const Tensor picked = s.scratch({ends.rows.numel(), x.shape()[1]});
    embedding_forward(picked, ends.rows, x, 0, false, s.stream);
    x = picked;
  }
  if (ends.logits) head.logits(s, ends.logits, x, final_norm);
  if (!ends.hidden && !ends.scores) return;
  ConstTensor normed = x;
  if (final_norm != nullptr) {
    const Tensor made = ends.hidden ? ends.hidden : s.scratch(x.shape());
    final_norm->forward(s, made, x, nullptr);
    normed = made;
  } else if (ends.hidden) {
    copy(ends.hidden, x, s.stream);
  }
  if (ends.scores) head.at(ends.temperature).score(s, ends.scores, normed, labels, ends.vocab);
}

// The losses of the tokens that are learnt; of all others the head reads and makes nothing.
static void find_losses_of_learnt(Step& s, const Ends& ends, ConstTensor normed,
                                  const Fields& batch, const LmHead& head, LmHead::Saved* saved) {
  const ArenaScope scope(s.layer);
  Step of_learnt = step_of_rows(s, ends.learnt.numel());
  const Tensor picked = s.scratch({ends.learnt.numel(), normed.shape()[1]});
  pick_rows(s, picked, normed, ends.learnt);
  head.loss(of_learnt, ends.loss, picked, batch[Field::targets], ends.weight, saved, ends.hits);
  if (!saved) return;
  const ConstTensor d_picked = saved->dx;
  saved->dx = s.kept(saved, normed.shape());
  put_rows_back(s, saved->dx, d_picked, batch[Field::row_of]);
}

// What the objective makes of the losses of all tokens is known once all are; in training they are
// then made again, each with the weight that it turned out to have.
void find_losses(Step& s, const Ends& ends, ConstTensor normed, const Fields& batch,
                 const LmHead& whole, LmHead::Saved* saved) {
  if (ends.learnt) return find_losses_of_learnt(s, ends, normed, batch, whole, saved);
  const ConstTensor labels = batch[Field::labels];
  if (!ends.criterion)
    return whole.loss(s, ends.loss, normed, labels, ends.weight, saved, ends.hits);
  const LmHead head = whole.at(ends.temperature);
  const Tensor said = s.scratch_sums(labels.shape());
  head.loss(s, said, normed, labels, {}, nullptr, ends.hits);
  ends.criterion->judge(ends.loss, said, batch, saved ? ends.weight : ConstTensor(), s.stream);
  if (saved) head.loss(s, s.scratch_sums(labels.shape()), normed, labels, said, saved);
}

void find_losses(Step& s, const Ends& ends, ConstTensor normed, const Fields& batch,
                 const LmHead& whole, LmHead::Saved* saved, const ValueHead& value,
                 ValueHead::Saved* saved_value) {
  const ConstTensor labels = batch[Field::labels];
  const std::int64_t tokens = labels.numel();
  const LmHead head = whole.at(ends.temperature);
  const Tensor all = s.scratch_sums({2 * tokens}), said = all.rows(0, tokens),
               values = all.rows(tokens, 2 * tokens);
  head.loss(s, said, normed, labels, {}, nullptr, ends.hits);
  value.forward(s, values, normed);
  ends.criterion->judge(ends.loss, all, batch, saved ? ends.weight : ConstTensor(), s.stream);
  if (!saved) return;
  value.keep(s, normed, values, *saved_value);
  head.loss(s, s.scratch_sums(labels.shape()), normed, labels, said, saved);
}

}  // namespace mt
