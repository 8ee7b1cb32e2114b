// Objective: what a run makes small, as a function of the losses that a model's last stage gives:
// which of them count, and what each weighs.  It is a sum of terms, each with a name under which a
// run reports it; most have one.
#pragma once

#include <memory>
#include <span>

#include "kernels/update.h"
#include "tensor/fields.h"
#include "tensor/stream.h"
#include "train/run/term.h"

namespace mt {

class Arena;
struct Ends;  // model/model.h

class Objective {
 public:
  virtual ~Objective() = default;
  virtual std::span<const Term> terms() const = 0;  // at most kMostLosses
  // How many of them, the first ones, an evaluation finds.
  virtual std::size_t evaluated() const { return terms().size(); }
  // The fields that a micro-batch has beside those of its samples.
  virtual FieldSpecs fields(const FieldSpecs& of_samples) const = 0;
  // Fills those of its own fields that are made of whole sequences (FieldSpec::ahead), before ranks
  // that share these take their chunks of them.
  virtual void look_ahead(const Fields& /*whole*/) const {}
  // How many losses of a micro-batch in host memory count in a term.
  virtual double count(std::size_t term, const Fields& batch) const = 0;
  // Fills its own fields, in host memory: each loss of a term that counts weighs `each[term]`.
  virtual void weigh(const Fields& batch, std::span<const double> each) const = 0;
  // What the last stage reads and fills; losses, of type `real`, lie in `keep`.
  virtual Ends ends(const Fields& batch, Arena& keep, DType real) const = 0;
  // sum = a micro-batch's share of a term, [1] f64 on the device: the sum of the losses that count,
  // or, of a term that is a mean of micro-batches, its value.
  virtual void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                          Stream& stream) const = 0;
  // What the weights of losses are multiplied by, [1] f64 on the device, in its own fields.
  virtual void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const = 0;

  // Whether the micro-batches of all data-parallel ranks are one batch to it (Step::data).
  virtual bool spans_ranks() const { return false; }

  // How many numbers Ends::logits has of each sample, which an evaluation may collect.
  virtual std::int64_t scores() const { return 0; }

  // The values of the terms with these sums, of as many as there are.
  TermValues values(std::span<const LossSum> sums) const;
  // What is made small where the terms have these values.
  double total(const TermValues& values) const;
};

// The mean of a language model's losses over the tokens that count: those with a loss_mask of 1.
class LanguageModelling final : public Objective {
 public:
  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
};

// BERT's: the mean of the losses of a micro-batch's masked words, and, where its samples have an
// order of their two texts, the mean of that one's.  Micro-batches weigh alike, whatever they hold;
// one without masked words adds nothing.
class MaskedModelling final : public Objective {
 public:
  // Whether there is an order, and how many texts a sequence has at most.
  explicit MaskedModelling(bool with_order, std::int64_t texts = 1)
      : with_order_(with_order), texts_(texts) {}

  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;

 private:
  bool with_order_;
  std::int64_t texts_;
};

// Parts the texts of each sequence, so many, of which none sees another; padding is one, too: fills
// first_key by lengths.
void part_texts(const Fields& batch, std::size_t texts);

}  // namespace mt
