#include "post/supervised/dynamic_finetuning.h"

#include "ops/ops.h"

namespace mt {

Ends DynamicFinetuning::ends(const Fields& batch, Arena& keep, DType real) const {
  Ends ends = words_.ends(batch, keep, real);
  ends.criterion = this;
  return ends;
}

void DynamicFinetuning::judge(Tensor loss, Tensor scores, const Fields&, ConstTensor weight,
                              Stream& stream) const {
  dft_loss(loss, scores, weight, stream);
}

}  // namespace mt
