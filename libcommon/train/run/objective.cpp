#include "train/run/objective.h"

#include <algorithm>

#include "ops/ops.h"

namespace mt {

FieldSpecs LanguageModelling::fields(const FieldSpecs& of_samples) const {
  FieldSpec weight = *std::ranges::find(of_samples, Field::loss_mask, &FieldSpec::field);
  weight.field = Field::weight;
  return {weight};
}

double LanguageModelling::count(const Fields& batch) const {
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T m : batch.span<T>(Field::loss_mask)) total += static_cast<double>(m);
  });
  return total;
}

void LanguageModelling::weigh(const Fields& batch, double each) const {
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    std::ranges::transform(batch.span<T>(Field::loss_mask), batch[Field::weight].as<T>(),
                           [=](T mask) { return mask * static_cast<T>(each); });
  });
}

Ends LanguageModelling::ends(const Fields& batch, Tensor loss) const {
  return {.loss = loss, .weight = batch[Field::weight]};
}

void LanguageModelling::sum_losses(Tensor sum, const Ends& ends, const Fields& batch,
                                   Stream& stream) const {
  dot(sum, ends.loss, batch[Field::loss_mask], stream);
}

void LanguageModelling::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
