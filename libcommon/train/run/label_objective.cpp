#include "train/run/label_objective.h"

#include <algorithm>

#include "ops/ops.h"
#include "ops/top_word.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> LabelObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss", .mean = Term::Mean::of_micro_batches}};
  static constexpr Term kOfImages[] = {{.name = "loss"}, {.name = "accuracy", .weight = 0}};
  if (asks_ == Asks::first_of_image) return kOfImages;
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
  if (asks_ == Asks::first_of_text)
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

void LabelObjective::find_rows(const Fields& batch) const {
  const auto rows = batch.span<std::int32_t>(Field::rows),
             row_of = batch.span<std::int32_t>(Field::row_of),
             lengths = batch.span<std::int32_t>(Field::lengths);
  const std::size_t tokens = row_of.size() / rows.size();
  std::ranges::fill(row_of, -1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token =
        i * tokens + (asks_ == Asks::last_of_text ? static_cast<std::size_t>(lengths[i] - 1) : 0);
    rows[i] = static_cast<std::int32_t>(token);
    row_of[token] = static_cast<std::int32_t>(i);
  }
}

void LabelObjective::weigh(const Fields& batch, std::span<const double> each) const {
  if (asks_ == Asks::first_of_text) part_texts(batch, 1);
  find_rows(batch);
  const auto choices = static_cast<std::size_t>(options_.choices),
             samples = static_cast<std::size_t>(samples_of(batch));
  const double shares =
      asks_ == Asks::first_of_image ? 1 : std::max(1.0, count(0, batch));  // of a term's sum
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
      share[i] = mask / static_cast<T>(shares);
    }
  });
}

Ends LabelObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t sequences = batch[Field::rows].numel(), samples = sequences / options_.choices;
  Ends ends{.loss = keep.alloc(real, {samples}), .weight = batch[Field::weight].rows(0, samples)};
  ends.logits = keep.alloc(real, {sequences, options_.labels});
  ends.criterion = this;
  // Behind the hits there is room for what they are made of.
  if (asks_ == Asks::first_of_image) ends.hits = keep.alloc(real, {3 * samples});
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

void LabelObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends, const Fields& batch,
                                Stream& stream) const {
  const std::int64_t samples = ends.loss.numel();
  const Tensor share = batch[Field::share].rows(0, samples);
  if (term == 0) return dot(sum, ends.loss, share, stream);
  const Tensor hits = ends.hits.rows(0, samples), tops = ends.hits.rows(samples, 3 * samples);
  top_words(tops.reshape({2, samples}), ends.logits, 0, options_.labels, stream);
  top_word_hits(hits, tops.reshape({1, 2, samples}), batch[Field::targets].rows(0, samples),
                stream);
  dot(sum, hits, share, stream);
}

void LabelObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
