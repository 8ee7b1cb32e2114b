#include "post/supervised/supervised_objective.h"

#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> SupervisedObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss"}, {.name = "token accuracy", .weight = 0}};
  return kTerms;
}

Ends SupervisedObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  Ends ends = words_.ends(batch, keep, real);
  ends.hits = keep.alloc(real, ends.loss.shape());
  if (weighs_probabilities_) ends.criterion = this;
  return ends;
}

void SupervisedObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                     const Fields& batch, Stream& stream) const {
  dot(sum, term == 0 ? ends.loss : ends.hits, batch[Field::loss_mask], stream);
}

void SupervisedObjective::judge(Tensor loss, Tensor scores, const Fields&, ConstTensor weight,
                                Stream& stream) const {
  dft_loss(loss, scores, weight, stream);
}

}  // namespace mt
