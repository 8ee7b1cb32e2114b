// Objective: what a run makes small, as a function of the losses that a model's last stage gives:
// which of them count, and what each weighs.
#pragma once

#include "model/model.h"

namespace mt {

class Objective {
 public:
  virtual ~Objective() = default;
  // The fields that a micro-batch has beside those of its samples.
  virtual FieldSpecs fields(const FieldSpecs& of_samples) const = 0;
  // How many losses of a micro-batch in host memory count.
  virtual double count(const Fields& batch) const = 0;
  // Fills its own fields, in host memory: each loss that counts weighs `each`.
  virtual void weigh(const Fields& batch, double each) const = 0;
  // What the last stage reads and fills; `loss` is where the losses go.
  virtual Ends ends(const Fields& batch, Tensor loss) const = 0;
  // sum = the sum of the losses that count, [1] f64 on the device.
  virtual void sum_losses(Tensor sum, const Ends& ends, const Fields& batch,
                          Stream& stream) const = 0;
  // What the weights of losses are multiplied by, [1] f64 on the device, in its own fields.
  virtual void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const = 0;
};

// The mean of a language model's losses over the tokens that count: those with a loss_mask of 1.
class LanguageModelling final : public Objective {
 public:
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(const Fields& batch) const override;
  void weigh(const Fields& batch, double each) const override;
  Ends ends(const Fields& batch, Tensor loss) const override;
  void sum_losses(Tensor sum, const Ends& ends, const Fields& batch, Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
};

}  // namespace mt
