#include "nn/embedding.h"

#include "nn/context_parallel.h"
#include "nn/tensor_parallel.h"
#include "ops/ops.h"

namespace mt {

void Embedding::look_up(Step& s, Tensor y, ConstTensor ids) const {
  const ConstTensor table = s.weight(*words_);
  if (!words_->is_cut()) return embedding_forward(y, ids, table, 0, false, s.stream);
  const ArenaScope scope(s.layer);
  const Tensor part = part_of_sum(s, y);
  embedding_forward(part, ids, table, words_->cuts[0].global, false, s.stream);
  sum_parts(s, y, part).wait();
}

void Embedding::forward(Step& s, Tensor y, ConstTensor ids, Saved* saved) const {
  look_up(s, y, ids);
  s.done(*words_);
  const ConstTensor positions = s.tokens.positions.rows(s.first_row(), s.first_row() + s.rows());
  if (positions_) {
    embedding_forward(y, positions, s.weight(*positions_), 0, true, s.stream);
    s.done(*positions_);
  }
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) add_dropout(s, y, {}, y, {}, dropout);
  s.show(*words_, "output", y);
  if (saved) *saved = {ids, positions};
}

void Embedding::backward(Step& s, Tensor dy, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) add_dropout_backward(s, dy, dy, dropout);
  ConstTensor of_all = dy;
  Pending gathered;
  if (s.shares_rows() && words_->trainable) {
    const Tensor all = s.scratch({s.tokens.count(), dy.shape()[1]});
    gathered = gather_rows(s, all, dy);
    of_all = all;
  }
  if (positions_ && positions_->trainable)
    embedding_backward(s.gradient_of(*positions_), v.positions, dy, 0, s.stream);
  gathered.wait();
  if (words_->trainable)
    embedding_backward(s.gradient_of(*words_), v.ids, of_all,
                       words_->is_cut() ? words_->cuts[0].global : 0, s.stream);
}

}  // namespace mt
