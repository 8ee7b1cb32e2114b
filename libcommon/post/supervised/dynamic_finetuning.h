// DynamicFinetuning: language modelling in which each token's loss is weighed with the probability
// that the model gives it (kernels/dft_loss.h).
#pragma once

#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

class DynamicFinetuning final : public Objective, private Criterion {
 public:
  std::span<const Term> terms() const override { return words_.terms(); }
  FieldSpecs fields(const FieldSpecs& of_samples) const override {
    return words_.fields(of_samples);
  }
  double count(std::size_t term, const Fields& batch) const override {
    return words_.count(term, batch);
  }
  void weigh(const Fields& batch, std::span<const double> each) const override {
    words_.weigh(batch, each);
  }
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override {
    words_.sum_losses(term, sum, ends, batch, stream);
  }
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override {
    words_.scale_weights(batch, by, stream);
  }

 private:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;

  LanguageModelling words_;
};

}  // namespace mt
