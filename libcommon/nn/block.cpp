#include "nn/block.h"

#include "ops/ops.h"

namespace mt {

void Block::forward(Step& s, Tensor y, ConstTensor x, Saved* v) const {
  const Tensor n1 = s.kept(v, x.shape()), h = s.kept(v, x.shape()), n2 = s.kept(v, x.shape());
  norm1_.forward(s, n1, x, v ? &v->norm1 : nullptr);
  attention_.forward(s, h, x, n1, v ? &v->attention : nullptr);
  norm2_.forward(s, n2, h, v ? &v->norm2 : nullptr);
  mlp_.forward(s, y, h, n2, v ? &v->mlp : nullptr);
  if (!v) return;
  v->n1 = n1;
  v->h = h;
  v->n2 = n2;
}

void Block::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const Tensor dn = s.scratch(dy.shape()), dh = s.gradient(dy.shape());
  mlp_.backward(s, dn, dy, v.n2, v.mlp);
  norm2_.backward(s, dh, dn, v.h, v.norm2);
  add(dh, dh, dy, s.stream);
  attention_.backward(s, dn, dh, v.n1, v.attention);
  norm1_.backward(s, dx, dn, x, v.norm1);
  add(dx, dx, dh, s.stream);
}

}  // namespace mt
