#include "nn/sequence_head.h"

#include "nn/asked_rows.h"
#include "ops/ops.h"

namespace mt {

// A row is a sequence of one token.
Dropout SequenceHead::dropout(const Step& s) const {
  Dropout dropout = s.dropout(dropout_, 0, Purpose::head_dropout);
  dropout.seq_length = 1;
  dropout.first_row = 0;
  return dropout;
}

Tensor SequenceHead::forward(Step& s, ConstTensor x, const Asked& asked, Saved* saved) const {
  const std::int64_t rows = asked.rows.numel(), width = x.shape()[1];
  const Tensor scores = s.kept(saved, {rows, scores_.out_features()});
  const Tensor picked = s.kept(saved, {rows, width});
  const Tensor pooled = pooler_ ? s.kept(saved, {rows, width}) : picked;
  pick_rows(s, picked, x, asked.rows);
  Step of_rows = step_of_rows(s, rows);
  if (pooler_) {
    pooler_->forward(of_rows, pooled, picked);
    tanh_forward(pooled, pooled, s.stream);
  }
  Tensor dropped = pooled;
  if (const Dropout drop = dropout(s); drop.p > 0) {
    dropped = s.kept(saved, {rows, width});
    bias_dropout_add(dropped, {}, pooled, {}, drop, s.stream);
  }
  scores_.forward(of_rows, scores, dropped);
  if (saved)
    *saved = {.row_of = asked.row_of,
              .x = picked,
              .pooled = pooled,
              .dropped = dropped,
              .scores = scores};
  return scores;
}

void SequenceHead::backward(Step& s, Tensor dx, const Saved& v) const {
  const ArenaScope scope(s.layer);
  Step of_rows = step_of_rows(s, v.x.shape()[0]);
  Tensor d_pooled = s.scratch(v.x.shape());
  scores_.backward(of_rows, d_pooled, v.scores, v.dropped);
  if (const Dropout drop = dropout(s); drop.p > 0)
    dropout_backward(d_pooled, d_pooled, drop, s.stream);
  if (pooler_) {
    const Tensor dz = s.gradient(v.x.shape()), d_picked = s.scratch(v.x.shape());
    tanh_backward(dz, d_pooled, v.pooled, s.stream);
    pooler_->backward(of_rows, d_picked, dz, v.x);
    d_pooled = d_picked;
  }
  put_rows_back(s, dx, d_pooled, v.row_of);
}

}  // namespace mt
