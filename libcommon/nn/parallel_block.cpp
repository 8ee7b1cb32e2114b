#include "nn/parallel_block.h"

#include "ops/ops.h"

namespace mt {

Tensor ParallelBlock::normed(Step& s, const Norm& norm, ConstTensor x, Norm::Saved* saved) const {
  const Tensor made = s.kept(norms_->recompute ? nullptr : saved, x.shape());
  norm.forward(s, made, x, saved);
  return made;
}

void ParallelBlock::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                            const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const Tensor attended = y ? s.scratch(y.shape()) : Tensor();
  ConstTensor read = x, mlp_reads = x;
  const Norm* mlp_norm = norm;
  if (norms_ && saved == nullptr) {  // they go with the products that read them
    norm = &norms_->attention;
    mlp_norm = &norms_->mlp;
  } else if (norms_) {
    const Tensor of_attention = normed(s, norms_->attention, x, &saved->attention_norm),
                 of_mlp = normed(s, norms_->mlp, x, &saved->mlp_norm);
    if (!norms_->recompute) {
      saved->of_attention = of_attention;
      saved->of_mlp = of_mlp;
    }
    read = of_attention;
    mlp_reads = of_mlp;
  }
  attention_.forward(s, attended, residual, read, saved ? &saved->attention : nullptr, norm,
                     mlp_.first_weight());
  mlp_.forward(s, y, attended, mlp_reads, saved ? &saved->mlp : nullptr, mlp_norm, ahead);
}

void ParallelBlock::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                             const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Tensor of_mlp = s.scratch(dx.shape());
  if (!norms_) {
    mlp_.backward(s, of_mlp, dy, x, v.mlp);
    attention_.backward(s, dx, dy, x, v.attention);
    return add(dx, dx, of_mlp, s.stream);
  }
  const auto read = [&](const Norm& norm, ConstTensor kept) {
    if (kept) return kept;
    const Tensor again = s.gradient(x.shape());
    norm.forward(s, again, x, nullptr);
    return ConstTensor(again);
  };
  const Tensor dn = s.scratch(dx.shape());
  mlp_.backward(s, dn, dy, read(norms_->mlp, v.of_mlp), v.mlp);
  norms_->mlp.backward(s, of_mlp, dn, x, v.mlp_norm);
  attention_.backward(s, dn, dy, read(norms_->attention, v.of_attention), v.attention);
  norms_->attention.backward(s, dx, dn, x, v.attention_norm, of_mlp);
}

}  // namespace mt
