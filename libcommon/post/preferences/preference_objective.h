// PreferenceObjective: the mean, over the pairs of a global batch, of a loss of what the model says
// of the two texts of each (kernels/preference_loss.h): of the log-probabilities of their
// completions, or of the scores that its head gives their last tokens.  Beside it, rewards are
// told.
#pragma once

#include "kernels/preference_loss.h"
#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

class PreferenceObjective final : public Objective, private Criterion {
 public:
  // A sample has seq_length tokens, and at most so many pairs.
  PreferenceObjective(const PreferenceRules& rules, std::int64_t seq_length, std::int64_t pairs)
      : rules_(rules), seq_length_(seq_length), pairs_(pairs) {}

  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
  // The log-probabilities of a sample's texts.
  std::int64_t scores() const override { return has_head() ? 0 : 2 * pairs_; }

 private:
  bool has_head() const { return rules_.losses[0].kind == Preference::bradley_terry; }
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;
  void find_rows(const Fields& batch) const;

  PreferenceRules rules_;
  std::int64_t seq_length_, pairs_;
};

}  // namespace mt
