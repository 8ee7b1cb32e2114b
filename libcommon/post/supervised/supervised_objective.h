// SupervisedObjective: language modelling, of which the share of tokens that the model holds for
// the likeliest is told, too; perhaps with each token's loss weighed with the probability that the
// model gives it (kernels/dft_loss.h).  Where it is told that only some of a sample's tokens are
// learnt it has losses of those alone, so that the head computes nothing of prompts and images.
#pragma once

#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

class SupervisedObjective final : public Objective, private Criterion {
 public:
  // learnt: of a sample at most so many tokens are, and the others have no losses, which a loss
  // that is weighed with probabilities does not allow; 0: all have.
  SupervisedObjective(bool weighs_probabilities, std::int64_t learnt)
      : weighs_probabilities_(weighs_probabilities), learnt_(learnt) {}

  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t, const Fields& batch) const override { return words_.count(0, batch); }
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override {
    words_.scale_weights(batch, by, stream);
  }

 private:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;

  LanguageModelling words_;
  bool weighs_probabilities_;
  std::int64_t learnt_;
};

}  // namespace mt
