#include "nn/bert_heads.h"

#include "nn/asked_rows.h"
#include "ops/ops.h"

namespace mt {

static constexpr std::int64_t kClasses = 2;

void BertHeads::losses_of_words(Step& s, Tensor loss, ConstTensor x, const Asked& asked,
                                Saved* saved) const {
  const std::int64_t rows = x.shape()[0];
  const Tensor h = s.kept(saved, x.shape()), a = s.kept(saved, x.shape());
  const ArenaScope scope(s.layer);
  const Tensor normed = s.scratch(x.shape());
  dense_.forward(s, h, x);
  gelu_forward(a, h, GeluForm::erf, s.stream);
  norm_.forward(s, normed, a, saved ? &saved->norm : nullptr);
  words_.loss(s, loss.rows(0, rows), normed, asked.targets.rows(0, rows),
              asked.weight.rows(0, rows), saved ? &saved->words : nullptr);
  if (!saved) return;
  saved->h = h;
  saved->a = a;
}

void BertHeads::losses_of_order(Step& s, Tensor loss, ConstTensor x, const Asked& asked,
                                Saved* saved) const {
  const std::int64_t end = loss.numel(), begin = end - x.shape()[0];
  const Tensor pooled = s.kept(saved, x.shape()), classes = s.kept(saved, {end - begin, kClasses});
  order_->pooler.forward(s, pooled, x);
  tanh_forward(pooled, pooled, s.stream);
  order_->classes.forward(s, classes, pooled);
  cross_entropy(loss.rows(begin, end), classes, asked.targets.rows(begin, end),
                saved ? asked.weight.rows(begin, end) : ConstTensor(), kClasses, 0, s.stream);
  if (!saved) return;
  saved->pooled = pooled;
  saved->d_classes = classes;
}

void BertHeads::logits(Step& s, Tensor logits, ConstTensor x) const {
  const ArenaScope scope(s.layer);
  const Tensor h = s.scratch(x.shape()), a = s.scratch(x.shape());
  dense_.forward(s, h, x);
  gelu_forward(a, h, GeluForm::erf, s.stream);
  words_.logits(s, logits, a, &norm_);
}

void BertHeads::pool(Step& s, Tensor pooled, ConstTensor x) const {
  order_->pooler.forward(s, pooled, x);
  tanh_forward(pooled, pooled, s.stream);
}

void BertHeads::forward(Step& s, Tensor loss, ConstTensor x, const Asked& asked,
                        Saved* saved) const {
  const std::int64_t all = asked.rows.numel(), words = all - asked.order;
  const Tensor picked = s.kept(saved, {all, x.shape()[1]});
  pick_rows(s, picked, x, asked.rows);
  Step of_words = step_of_rows(s, words);
  losses_of_words(of_words, loss, picked.rows(0, words), asked, saved);
  if (order_) {
    Step of_order = step_of_rows(s, all - words);
    losses_of_order(of_order, loss, picked.rows(words, all), asked, saved);
  }
  if (!saved) return;
  saved->row_of = asked.row_of;
  saved->x = picked;
}

void BertHeads::backward(Step& s, Tensor dx, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t all = v.x.shape()[0], words = v.a.shape()[0];
  const Tensor d_asked = s.scratch(v.x.shape());
  {
    Step of_words = step_of_rows(s, words);
    const Tensor da = s.scratch(v.a.shape()), dh = s.gradient(v.h.shape());
    norm_.backward(of_words, da, v.words.dx, v.a, v.norm);
    gelu_backward(dh, da, v.h, GeluForm::erf, s.stream);
    dense_.backward(of_words, d_asked.rows(0, words), dh, v.x.rows(0, words));
  }
  if (order_) {
    Step of_order = step_of_rows(s, all - words);
    const Tensor d_pooled = s.scratch(v.pooled.shape()), dz = s.gradient(v.pooled.shape());
    order_->classes.backward(of_order, d_pooled, v.d_classes, v.pooled);
    tanh_backward(dz, d_pooled, v.pooled, s.stream);
    order_->pooler.backward(of_order, d_asked.rows(words, all), dz, v.x.rows(words, all));
  }
  put_rows_back(s, dx, d_asked, v.row_of);
}

}  // namespace mt
