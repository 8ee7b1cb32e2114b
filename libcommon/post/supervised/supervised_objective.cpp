#include "post/supervised/supervised_objective.h"

#include <algorithm>

#include "base/error.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> SupervisedObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss"}, {.name = "token accuracy", .weight = 0}};
  return kTerms;
}

FieldSpecs SupervisedObjective::fields(const FieldSpecs& of_samples) const {
  if (learnt_ == 0) return words_.fields(of_samples);
  const auto of_rows = [&](Field field, DType dtype) {
    return FieldSpec{.field = field, .dtype = dtype, .per_sample = learnt_, .of_tokens = false};
  };
  const auto mask = std::ranges::find(of_samples, Field::loss_mask, &FieldSpec::field);
  return {{.field = Field::row_of, .per_sample = mask->per_sample},
          of_rows(Field::rows, DType::i32),
          of_rows(Field::targets, DType::i32),
          of_rows(Field::weight, DType::f32),
          of_rows(Field::share, DType::f32)};
}

// Fills what there is of each row: those of the tokens that are learnt, in their order, and then
// the micro-batch's first token again and again, without weight and share.
template <class T>
static void find_rows(const Fields& batch, T weight) {
  const auto of = [&](Field field) { return batch.span<std::int32_t>(field); };
  const auto labels = of(Field::labels), row_of = of(Field::row_of), rows = of(Field::rows),
             targets = of(Field::targets);
  const auto mask = batch.span<T>(Field::loss_mask), weights = batch.span<T>(Field::weight),
             share = batch.span<T>(Field::share);
  std::ranges::fill(row_of, -1);
  std::size_t row = 0;
  for (std::size_t token = 0; token < mask.size(); ++token) {
    if (mask[token] == 0) continue;
    if (row == rows.size()) fail(Exit::internal, "more tokens are learnt than was said");
    rows[row] = static_cast<std::int32_t>(token);
    row_of[token] = static_cast<std::int32_t>(row);
    targets[row] = labels[token];
    weights[row] = mask[token] * weight;
    share[row++] = mask[token];
  }
  for (const Field field : {Field::rows, Field::targets})
    std::ranges::fill(of(field).subspan(row), 0);
  for (const Field field : {Field::weight, Field::share})
    std::ranges::fill(batch.span<T>(field).subspan(row), T(0));
}

void SupervisedObjective::weigh(const Fields& batch, std::span<const double> each) const {
  if (learnt_ == 0) return words_.weigh(batch, each);
  with_float_type(batch[Field::weight].dtype(),
                  [&]<class T>() { find_rows<T>(batch, static_cast<T>(each[0])); });
}

Ends SupervisedObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const Tensor& weight = batch[Field::weight];
  Ends ends{.loss = keep.alloc(real, weight.shape()),
            .hits = keep.alloc(real, weight.shape()),
            .weight = weight};
  if (learnt_ > 0) ends.learnt = batch[Field::rows];
  if (weighs_probabilities_) ends.criterion = this;
  return ends;
}

void SupervisedObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                     const Fields& batch, Stream& stream) const {
  dot(sum, term == 0 ? ends.loss : ends.hits, batch[learnt_ > 0 ? Field::share : Field::loss_mask],
      stream);
}

void SupervisedObjective::judge(Tensor loss, Tensor scores, const Fields&, ConstTensor weight,
                                Stream& stream) const {
  dft_loss(loss, scores, weight, stream);
}

}  // namespace mt
