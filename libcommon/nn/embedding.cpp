#include "nn/embedding.h"

#include "ops/ops.h"

namespace mt {

void Embedding::forward(Step& s, Tensor y, ConstTensor ids, Saved* saved) const {
  embedding_forward(y, ids, s.weight(*words_), false, s.stream);
  s.done(*words_);
  if (positions_) {
    embedding_forward(y, s.positions, s.weight(*positions_), true, s.stream);
    s.done(*positions_);
  }
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) bias_dropout_add(y, {}, y, {}, dropout, s.stream);
  s.show(*words_, "output", y);
  if (saved) *saved = {ids, s.positions};
}

void Embedding::backward(Step& s, Tensor dy, const Saved& v) const {
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) dropout_backward(dy, dy, dropout, s.stream);
  if (words_->trainable) embedding_backward(words_->grad, v.ids, dy, s.stream);
  if (positions_ && positions_->trainable)
    embedding_backward(positions_->grad, v.positions, dy, s.stream);
}

}  // namespace mt
