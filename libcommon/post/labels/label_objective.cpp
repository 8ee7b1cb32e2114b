#include "post/labels/label_objective.h"

#include <algorithm>

#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> LabelObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss", .mean = Term::Mean::of_micro_batches}};
  return kTerms;
}

// A row for each sequence; those of samples are the first ones of their fields.
FieldSpecs LabelObjective::fields(const FieldSpecs&) const {
  FieldSpecs fields = {
      {.field = Field::row_of, .per_sample = options_.seq_length},
      {.field = Field::rows, .per_sample = 1, .of_tokens = false},
      {.field = Field::targets, .per_sample = 1, .of_tokens = false},
      {.field = Field::weight, .dtype = DType::f32, .per_sample = 1, .of_tokens = false},
      {.field = Field::share, .dtype = DType::f32, .per_sample = 1, .of_tokens = false}};
  if (options_.is_bert)
    fields.push_back({.field = Field::first_key, .per_sample = options_.seq_length});
  return fields;
}

std::int64_t LabelObjective::samples_of(const Fields& batch) const {
  return batch[Field::loss_mask].numel() / options_.choices;
}

double LabelObjective::count(std::size_t, const Fields& batch) const {
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < samples_of(batch); ++i)
      total += static_cast<double>(
          batch.span<T>(Field::loss_mask)[static_cast<std::size_t>(i * options_.choices)]);
  });
  return total;
}

// A BERT is asked of a sequence's first token, a GPT of its last.
void LabelObjective::find_rows(const Fields& batch) const {
  const auto rows = batch.span<std::int32_t>(Field::rows),
             row_of = batch.span<std::int32_t>(Field::row_of),
             lengths = batch.span<std::int32_t>(Field::lengths);
  const std::size_t tokens = row_of.size() / rows.size();
  std::ranges::fill(row_of, -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token =
        i * tokens + (options_.is_bert ? 0 : static_cast<std::size_t>(lengths[i] - 1));
    rows[i] = static_cast<std::int32_t>(token);
    row_of[token] = static_cast<std::int32_t>(i);
  }
}

void LabelObjective::weigh(const Fields& batch, std::span<const double> each) const {
  if (options_.is_bert) part_texts(batch, 1);
  find_rows(batch);
  const auto choices = static_cast<std::size_t>(options_.choices),
             samples = static_cast<std::size_t>(samples_of(batch));
  const double counted = std::max(1.0, count(0, batch));
  const auto labels = batch.span<std::int32_t>(Field::labels),
             targets = batch.span<std::int32_t>(Field::targets);
  std::ranges::fill(targets, 0);
  for (std::size_t i = 0; i < samples && !labels.empty(); ++i) targets[i] = labels[i * choices];
  with_float_type(batch[Field::weight].dtype(), [&]<class T>() {
    const auto weight = batch.span<T>(Field::weight), share = batch.span<T>(Field::share);
    std::ranges::fill(weight, T(0));
    std::ranges::fill(share, T(0));
    for (std::size_t i = 0; i < samples; ++i) {
      const T mask = batch.span<T>(Field::loss_mask)[i * choices];
      weight[i] = mask * static_cast<T>(each[0]);
      share[i] = mask / static_cast<T>(counted);
    }
  });
}

Ends LabelObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t sequences = batch[Field::rows].numel(), samples = sequences / options_.choices;
  Ends ends{.loss = keep.alloc(real, {samples}), .weight = batch[Field::weight].rows(0, samples)};
  ends.logits = keep.alloc(real, {sequences, options_.labels});
  ends.criterion = this;
  return ends;
}

void LabelObjective::judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                           Stream& stream) const {
  const std::int64_t samples = loss.numel(), each = scores.numel() / samples;
  const Tensor of_samples = scores.reshape({samples, each});
  if (options_.kind == LabelKind::one)
    cross_entropy(loss, of_samples, batch[Field::targets].rows(0, samples), weight, each, 0,
                  stream);
  else
    score_loss(loss, of_samples, batch[Field::values].reshape({samples, each}), weight,
               options_.kind == LabelKind::many ? ScoreLoss::binary : ScoreLoss::squared, stream);
}

void LabelObjective::sum_losses(std::size_t, Tensor sum, const Ends& ends, const Fields& batch,
                                Stream& stream) const {
  dot(sum, ends.loss, batch[Field::share].rows(0, ends.loss.numel()), stream);
}

void LabelObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
