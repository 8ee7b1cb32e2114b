// ViewObjective: what a student says of parts of images is to be what a teacher says of others:
// the mean over images of the sum of their parts' losses (kernels/view_loss.h).  An evaluation
// finds no loss, but what the teacher knows an image by: the first features() of its scores().
#pragma once

#include "data/images/crop_samples.h"
#include "kernels/view_loss.h"
#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

class ViewObjective final : public Objective {
 public:
  ViewObjective(const CropShape& shape, std::int64_t hidden_size)
      : shape_(shape), hidden_size_(hidden_size) {}

  std::span<const Term> terms() const override;
  std::size_t evaluated() const override { return 0; }
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;
  std::int64_t scores() const override { return 2 * hidden_size_; }
  std::int64_t features() const { return hidden_size_; }

 private:
  std::int64_t parts() const { return 2 + shape_.others; }

  CropShape shape_;
  std::int64_t hidden_size_;
};

}  // namespace mt
