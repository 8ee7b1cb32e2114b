#include "nn/block.h"

namespace mt {

void Block::forward(Step& s, Tensor y, ConstTensor x, Saved* v) const {
  if (v == nullptr) {  // the norms go with the products that read them
    const Tensor h = s.scratch(x.shape());
    attention_.forward(s, h, x, x, nullptr, &norm1_, mlp_.first_weight());
    return mlp_.forward(s, y, h, h, nullptr, &norm2_);
  }
  const void* const keep_norms = recompute_norms_ ? nullptr : v;
  const Tensor n1 = s.kept(keep_norms, x.shape()), n2 = s.kept(keep_norms, x.shape());
  const Tensor h = s.kept(v, x.shape());
  norm1_.forward(s, n1, x, &v->norm1);
  attention_.forward(s, h, x, n1, &v->attention);
  norm2_.forward(s, n2, h, &v->norm2);
  mlp_.forward(s, y, h, n2, &v->mlp);
  v->h = h;
  v->n1 = keep_norms ? n1 : Tensor();
  v->n2 = keep_norms ? n2 : Tensor();
}

// A norm's output, kept or made again.
static ConstTensor output_of(Step& s, const Norm& norm, ConstTensor kept, ConstTensor x) {
  if (kept) return kept;
  const Tensor y = s.gradient(x.shape());
  norm.forward(s, y, x, nullptr);
  return y;
}

void Block::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x, const Saved& v) const {
  const Tensor dn = s.scratch(dy.shape()), dh = s.gradient(dy.shape());
  {
    const ArenaScope scope(s.layer);
    mlp_.backward(s, dn, dy, output_of(s, norm2_, v.n2, v.h), v.mlp);
  }
  norm2_.backward(s, dh, dn, v.h, v.norm2, dy);
  {
    const ArenaScope scope(s.layer);
    attention_.backward(s, dn, dh, output_of(s, norm1_, v.n1, x), v.attention);
  }
  norm1_.backward(s, dx, dn, x, v.norm1, dh);
}

}  // namespace mt
