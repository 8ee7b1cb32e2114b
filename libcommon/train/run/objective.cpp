#include "train/run/objective.h"

#include <algorithm>

#include "model/model.h"
#include "ops/ops.h"

namespace mt {

TermValues Objective::values(std::span<const LossSum> sums) const {
  TermValues values;
  for (std::size_t i = 0; i < terms().size(); ++i)
    values.push_back({terms()[i].name, sums[i].mean()});
  return values;
}

double Objective::total(const TermValues& values) const {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += terms()[i].weight * values[i].value;
  return total;
}

std::span<const Term> LanguageModelling::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss"}};
  return kTerms;
}

FieldSpecs LanguageModelling::fields(const FieldSpecs& of_samples) const {
  FieldSpec weight = *std::ranges::find(of_samples, Field::loss_mask, &FieldSpec::field);
  weight.field = Field::weight;
  return {weight};
}

double LanguageModelling::count(std::size_t, const Fields& batch) const {
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T m : batch.span<T>(Field::loss_mask)) total += static_cast<double>(m);
  });
  return total;
}

void LanguageModelling::weigh(const Fields& batch, std::span<const double> each) const {
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    std::ranges::transform(batch.span<T>(Field::loss_mask), batch[Field::weight].as<T>(),
                           [&](T mask) { return mask * static_cast<T>(each[0]); });
  });
}

Ends LanguageModelling::ends(const Fields& batch, Arena& keep, DType real) const {
  return {.loss = keep.alloc(real, batch[Field::labels].shape()), .weight = batch[Field::weight]};
}

void LanguageModelling::sum_losses(std::size_t, Tensor sum, const Ends& ends, const Fields& batch,
                                   Stream& stream) const {
  dot(sum, ends.loss, batch[Field::loss_mask], stream);
}

void LanguageModelling::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
