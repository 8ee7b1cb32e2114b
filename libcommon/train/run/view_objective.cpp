#include "train/run/view_objective.h"

#include <algorithm>

#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> ViewObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "loss"}};
  return kTerms;
}

FieldSpecs ViewObjective::fields(const FieldSpecs&) const {
  const auto own = [](Field field, std::int64_t each, DType dtype = DType::i32) {
    return FieldSpec{.field = field, .dtype = dtype, .per_sample = each, .of_tokens = false};
  };
  return {own(Field::row_of, 2 * shape_.whole.tokens() + shape_.others * shape_.other.tokens()),
          own(Field::rows, parts()), own(Field::weight, parts(), DType::f32),
          own(Field::share, parts(), DType::f32)};
}

double ViewObjective::count(std::size_t, const Fields& batch) const {
  double images = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T mask : batch.span<T>(Field::loss_mask)) images += static_cast<double>(mask);
  });
  return images;
}

// The first tokens of the first two parts of all images, and then those of the others, each
// counted by themselves.
void ViewObjective::weigh(const Fields& batch, std::span<const double> each) const {
  const auto rows = batch.span<std::int32_t>(Field::rows),
             row_of = batch.span<std::int32_t>(Field::row_of);
  const std::int64_t images = batch[Field::loss_mask].numel();
  const auto firsts = static_cast<std::size_t>(2 * images);
  std::ranges::fill(row_of, -1);
  const auto count = [](std::span<std::int32_t> rows, std::span<std::int32_t> row_of,
                        std::int64_t tokens) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      rows[r] = static_cast<std::int32_t>(r) * static_cast<std::int32_t>(tokens);
      row_of[static_cast<std::size_t>(rows[r])] = static_cast<std::int32_t>(r);
    }
  };
  const std::int64_t whole = shape_.whole.tokens();
  count(rows.first(firsts), row_of, whole);
  count(rows.subspan(firsts), row_of.subspan(firsts * static_cast<std::size_t>(whole)),
        shape_.other.tokens());
  const Views views{.images = images, .others = shape_.others};
  with_float_type(batch[Field::weight].dtype(), [&]<class T>() {
    const auto mask = batch.span<T>(Field::loss_mask), weight = batch.span<T>(Field::weight),
               share = batch.span<T>(Field::share);
    for (std::size_t r = 0; r < share.size(); ++r) {
      share[r] = mask[static_cast<std::size_t>(views.image_of(static_cast<std::int64_t>(r)))];
      weight[r] = share[r] * static_cast<T>(each[0]);
    }
  });
}

Ends ViewObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  Ends ends{.loss = keep.alloc(real, {batch[Field::rows].numel()}), .weight = batch[Field::weight]};
  ends.logits = keep.alloc(real, {batch[Field::loss_mask].numel(), scores()});
  return ends;
}

void ViewObjective::sum_losses(std::size_t, Tensor sum, const Ends& ends, const Fields& batch,
                               Stream& stream) const {
  dot(sum, ends.loss, batch[Field::share], stream);
}

void ViewObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
