// An objective of two terms, for tests of what passes them on: a language model's, and a half of
// the loss of a micro-batch's first token.
#pragma once

#include "model/model.h"
#include "ops/ops.h"
#include "train/run/objective.h"

namespace mt {

class TwoTerms final : public Objective {
 public:
  std::span<const Term> terms() const override {
    static constexpr Term kTerms[] = {
        {.name = "lm loss"},
        {.name = "first loss", .mean = Term::Mean::of_micro_batches, .weight = 0.5}};
    return kTerms;
  }
  FieldSpecs fields(const FieldSpecs& of_samples) const override {
    return words_.fields(of_samples);
  }
  double count(std::size_t term, const Fields& batch) const override {
    return words_.count(term, term == 0 ? batch : first_of(batch));
  }
  void weigh(const Fields& batch, std::span<const double> each) const override {
    words_.weigh(batch, each);
    const Fields first = first_of(batch);
    with_float_type(first[Field::weight].dtype(), [&]<class T>() {
      first[Field::weight].as<T>()[0] +=
          first[Field::loss_mask].as<T>()[0] * static_cast<T>(each[1]);
    });
  }
  Ends ends(const Fields& batch, Arena& keep, DType real) const override {
    return words_.ends(batch, keep, real);
  }
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override {
    if (term == 0) return words_.sum_losses(term, sum, ends, batch, stream);
    words_.sum_losses(term, sum, {.loss = ends.loss.rows(0, 1)}, first_of(batch), stream);
  }
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override {
    words_.scale_weights(batch, by, stream);
  }

 private:
  static Fields first_of(const Fields& batch) {
    Fields first;
    for (const Field field : {Field::loss_mask, Field::weight})
      if (batch[field]) first[field] = batch[field].rows(0, 1);
    return first;
  }
  LanguageModelling words_;
};

}  // namespace mt
