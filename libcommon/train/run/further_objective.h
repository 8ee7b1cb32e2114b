// FurtherObjective: what a language model's losses are to another objective, and, with a weight,
// the mean of the losses of the further tokens that it predicts (nn/further_tokens.h), as
// Megatron-Core has it (core_v0.12.1, core/transformer/multi_token_prediction.py).  The i-th of
// these reads and says what stands i tokens further on in the row of a sample; where that ends none
// counts.  Nor does one count where a text ends, if samples are of texts that do not see each
// other; else it may be of another document.  Each depth is a term of its own behind the other
// objective's, the mean of its micro-batches' values, which training alone has, as there.
#pragma once

#include <memory>
#include <vector>

#include "train/run/objective.h"

namespace mt {

class FurtherObjective final : public Objective {
 public:
  // next: of the losses of the next tokens;  weight: of the mean of all depths' terms;
  // seq_length: tokens of a sample;  within_texts: Field::first_key says where texts begin.
  FurtherObjective(std::unique_ptr<const Objective> next, std::int64_t depths, double weight,
                   std::int64_t seq_length, bool within_texts = false);

  std::span<const Term> terms() const override { return terms_; }
  std::size_t evaluated() const override { return next_->evaluated(); }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  void look_ahead(const Fields& whole) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;

 private:
  std::size_t own() const { return next_->terms().size(); }  // the first of its terms
  std::int64_t depths() const { return std::ssize(terms_) - std::ssize(next_->terms()); }
  Tensor of_term(const Tensor& all, std::size_t term) const;  // all: [depths tokens]

  std::unique_ptr<const Objective> next_;
  std::size_t seq_length_;
  bool within_texts_;
  std::vector<Term> terms_;
};

}  // namespace mt
