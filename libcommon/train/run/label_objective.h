// LabelObjective: a task's losses, of the scores that a model's head gives its sequences: the mean
// over a micro-batch's samples, and of a run's micro-batches, or, of images, over all samples.  For
// a sample
//   one      cross-entropy of its scores, or of those of its choices, one each
//   numbers  the mean over its scores of their squared distance from the numbers
//   many     the mean over its scores of binary cross-entropy
// as transformers' models for sequence classification and multiple choice have them.
#pragma once

#include "model/model.h"
#include "train/run/label_kind.h"
#include "train/run/objective.h"

namespace mt {

class LabelObjective final : public Objective, private Criterion {
 public:
  // Which token of a sequence is asked: a BERT's first, in texts that padding follows; a GPT's
  // last; or the first, of an image, where the share of samples whose label has the largest score
  // is a term, too.
  enum class Asks : std::uint8_t { first_of_text, last_of_text, first_of_image };
  LabelObjective(const LabelledSequences& options, Asks asks) : options_(options), asks_(asks) {}

  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
  std::int64_t scores() const override { return options_.labels; }

 private:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;
  std::int64_t samples_of(const Fields& batch) const;
  void find_rows(const Fields& batch) const;

  LabelledSequences options_;
  Asks asks_;
};

}  // namespace mt
