#include "train/run/inpaint_objective.h"

#include <algorithm>
#include <numeric>

#include "ops/image_quality.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> InpaintObjective::terms() const {
  static constexpr Term kTerms[] = {
      {.name = "loss", .mean = Term::Mean::of_micro_batches},
      {.name = "psnr", .mean = Term::Mean::of_micro_batches, .weight = 0},
      {.name = "ssim", .mean = Term::Mean::of_micro_batches, .weight = 0}};
  return kTerms;
}

// A row for each patch.  What shares in the terms stands one term behind the other, those of the
// first two of patches, of the third of images.
FieldSpecs InpaintObjective::fields(const FieldSpecs&) const {
  const std::int64_t patches = shape_.patches();
  const auto real = [](Field field, std::int64_t each) {
    return FieldSpec{.field = field, .dtype = DType::f32, .per_sample = each, .of_tokens = false};
  };
  return {{.field = Field::row_of, .per_sample = patches},
          {.field = Field::rows, .per_sample = patches, .of_tokens = false},
          real(Field::weight, patches),
          real(Field::share, 2 * patches + 1)};
}

double InpaintObjective::count(std::size_t, const Fields& batch) const {
  double painted = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T mask : batch.span<T>(Field::loss_mask)) painted += static_cast<double>(mask);
  });
  return painted;
}

void InpaintObjective::weigh(const Fields& batch, std::span<const double> each) const {
  for (const Field field : {Field::rows, Field::row_of}) {
    const auto rows = batch.span<std::int32_t>(field);
    std::iota(rows.begin(), rows.end(), 0);
  }
  const double painted = std::max(1.0, count(0, batch));
  with_float_type(batch[Field::weight].dtype(), [&]<class T>() {
    const auto mask = batch.span<T>(Field::loss_mask), weight = batch.span<T>(Field::weight);
    auto share = batch.span<T>(Field::share);
    const auto patches = static_cast<std::size_t>(shape_.patches());
    const auto counts = [&](std::size_t image) {  // padding has nothing to paint
      return std::ranges::count(mask.subspan(image * patches, patches), T(0)) <
             static_cast<std::ptrdiff_t>(patches);
    };
    std::size_t images = 0;
    for (std::size_t i = 0; i < mask.size() / patches; ++i) images += counts(i) ? 1 : 0;
    const auto all = static_cast<double>(std::max<std::size_t>(images, 1));
    // Losses are means over a patch's colours and pixels.
    const auto fill = [&](const std::span<T>& to, double by) {
      std::ranges::transform(mask, to.begin(), [&](T m) { return m * static_cast<T>(by); });
    };
    constexpr int kChannels = 3;
    fill(weight, kChannels * each[0]);
    fill(share, kChannels / painted);
    share = share.subspan(mask.size());
    fill(share, 1 / (all * static_cast<double>(patches)));
    share = share.subspan(mask.size());
    for (std::size_t i = 0; i < share.size(); ++i)
      share[i] = counts(i) ? static_cast<T>(1 / all) : T(0);
  });
}

// Behind the losses of patches are the images' similarities, with room for what they are made of.
Ends InpaintObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t patches = batch[Field::rows].numel(), images = patches / shape_.patches();
  Ends ends{.loss = keep.alloc(real, {patches + 3 * images}), .weight = batch[Field::weight]};
  ends.criterion = this;
  return ends;
}

void InpaintObjective::judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                             Stream& stream) const {
  const std::int64_t patches = scores.shape()[0];
  PatchedImages shape = shape_;
  shape.images = patches / shape.patches();
  const ConstTensor truth = batch[Field::values].reshape(scores.shape());
  structural_similarity(loss.rows(patches, loss.numel()), scores, truth, batch[Field::loss_mask],
                        shape, stream);
  score_loss(loss.rows(0, patches), scores, truth, weight, ScoreLoss::squared, stream);
}

void InpaintObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                  const Fields& batch, Stream& stream) const {
  const std::int64_t patches = batch[Field::rows].numel(), images = patches / shape_.patches();
  const std::int64_t of_loss = term == 2 ? patches : 0, rows = term == 2 ? images : patches;
  const std::int64_t of_share = static_cast<std::int64_t>(term) * patches;
  dot(sum, ends.loss.rows(of_loss, of_loss + rows),
      batch[Field::share].rows(of_share, of_share + rows), stream);
  if (term == 1) to_decibels(sum, stream);
}

void InpaintObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
