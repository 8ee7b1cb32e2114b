// FurtherObjective: the mean of a language model's losses, and, with a weight, that of the losses
// of the further tokens that it predicts (nn/further_tokens.h), as Megatron-Core has it
// (core_v0.12.1, core/transformer/multi_token_prediction.py).  The i-th of these reads and says
// what stands i tokens further on in the row of a sample, whatever documents are there; where that
// ends none counts.  Each depth is a term of its own, the mean of its micro-batches' values.
#pragma once

#include <vector>

#include "train/run/objective.h"

namespace mt {

class FurtherObjective final : public Objective {
 public:
  // weight: of the mean of all depths' terms;  seq_length: tokens of a sample.
  FurtherObjective(std::int64_t depths, double weight, std::int64_t seq_length);

  std::span<const Term> terms() const override { return terms_; }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  void look_ahead(const Fields& whole) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;

 private:
  std::int64_t depths() const { return std::ssize(terms_) - 1; }
  Tensor of_term(const Tensor& all, std::size_t term) const;  // all: [depths tokens]

  std::size_t seq_length_;
  LanguageModelling words_;
  std::vector<Term> terms_;
};

}  // namespace mt
