// InpaintObjective: patches of images that a model did not see are painted as they were
// (pretrain_vision_inpaint.py).  Of a micro-batch, where only patches that were to be painted
// count,
//   loss  the sum of squared errors of all colours, over the number of pixels
//   psnr  -10 log10 of the mean squared error of all colours of whole images, as if the rest of
//         them had none
//   ssim  the mean of the images' structural similarity (kernels/image_quality.h)
// and of a run's micro-batches the mean of each.
#pragma once

#include "kernels/image_quality.h"
#include "model/model.h"
#include "train/run/objective.h"

namespace mt {

class InpaintObjective final : public Objective, private Criterion {
 public:
  explicit InpaintObjective(const PatchedImages& shape) : shape_(shape) {}  // of any images

  std::span<const Term> terms() const override;
  FieldSpecs fields(const FieldSpecs& of_samples) const override;
  double count(std::size_t term, const Fields& batch) const override;
  void weigh(const Fields& batch, std::span<const double> each) const override;
  Ends ends(const Fields& batch, Arena& keep, DType real) const override;
  void sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                  Stream& stream) const override;
  void scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const override;

 private:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override;

  PatchedImages shape_;
};

}  // namespace mt
