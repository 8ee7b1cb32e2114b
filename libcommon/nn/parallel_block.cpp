#include "nn/parallel_block.h"

#include "ops/ops.h"

namespace mt {

void ParallelBlock::forward(Step& s, Tensor y, ConstTensor residual, ConstTensor x, Saved* saved,
                            const Norm* norm, ConstTensor ahead) const {
  const ArenaScope scope(s.layer);
  const Tensor attended = y ? s.scratch(y.shape()) : Tensor();
  attention_.forward(s, attended, residual, x, saved ? &saved->attention : nullptr, norm,
                     mlp_.first_weight());
  mlp_.forward(s, y, attended, x, saved ? &saved->mlp : nullptr, norm, ahead);
}

void ParallelBlock::backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                             const Saved& v) const {
  const ArenaScope scope(s.layer);
  const Tensor of_mlp = s.scratch(dx.shape());
  mlp_.backward(s, of_mlp, dy, x, v.mlp);
  attention_.backward(s, dx, dy, x, v.attention);
  add(dx, dx, of_mlp, s.stream);
}

}  // namespace mt
