#include "post/preferences/preference_objective.h"

#include <algorithm>

#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> PreferenceObjective::terms() const {
  static constexpr Term kPairs[kPreferenceRows] = {{.name = "preference loss"},
                                                   {.name = "rewards chosen", .weight = 0},
                                                   {.name = "rewards rejected", .weight = 0},
                                                   {.name = "rewards accuracies", .weight = 0},
                                                   {.name = "rewards margins", .weight = 0}};
  static constexpr Term kSingle[] = {kPairs[0], kPairs[1], kPairs[2], {.name = "kl", .weight = 0}};
  if (rules_.has_single_texts()) return kSingle;
  return kPairs;
}

FieldSpecs PreferenceObjective::fields(const FieldSpecs&) const {
  FieldSpecs fields = {
      {.field = Field::weight, .dtype = DType::f32, .per_sample = pairs_, .of_tokens = false}};
  if (has_head()) {
    fields.push_back({.field = Field::row_of, .per_sample = seq_length_});
    fields.push_back({.field = Field::rows, .per_sample = 2 * pairs_, .of_tokens = false});
  }
  return fields;
}

// Rewards of single texts are means over those that are wanted, and over those that are not; a step
// without such has a mean of 0.
double PreferenceObjective::count(std::size_t term, const Fields& batch) const {
  constexpr double kNone = 1e-30;
  double total = 0;
  const bool is_part = rules_.has_single_texts() && (term == 1 || term == 2);
  with_float_type(batch[Field::share].dtype(), [&]<class T>() {
    const auto share = batch.span<T>(Field::share), values = batch.span<T>(Field::values);
    for (std::size_t i = 0; i < share.size(); ++i)
      if (!is_part || (values[i] > 0) == (term == 1)) total += static_cast<double>(share[i]);
  });
  return is_part ? std::max(total, kNone) : total;
}

// A text's last token is asked; of one that is not there the micro-batch's first, which is no
// row's.
void PreferenceObjective::find_rows(const Fields& batch) const {
  const auto rows = batch.span<std::int32_t>(Field::rows),
             row_of = batch.span<std::int32_t>(Field::row_of),
             lengths = batch.span<std::int32_t>(Field::lengths);
  std::ranges::fill(row_of, -1);
  std::int32_t token = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % static_cast<std::size_t>(2 * pairs_) == 0)
      token = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / (2 * pairs_) * seq_length_);
    token += lengths[i];
    rows[i] = lengths[i] > 0 ? token - 1 : 0;
    if (lengths[i] > 0) row_of[static_cast<std::size_t>(token - 1)] = static_cast<std::int32_t>(i);
  }
}

void PreferenceObjective::weigh(const Fields& batch, std::span<const double> each) const {
  if (has_head()) find_rows(batch);
  with_float_type(batch[Field::share].dtype(), [&]<class T>() {
    std::ranges::transform(batch.span<T>(Field::share), batch[Field::weight].as<T>(),
                           [&](T share) { return share * static_cast<T>(each[0]); });
  });
}

// Losses: kPreferenceRows numbers a pair, row by row; then, of words, each text's log-probability
// and each text's tokens that count.
Ends PreferenceObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t units = batch[Field::share].numel(), rows = kPreferenceRows * units;
  Ends ends{.loss = keep.alloc(real, {rows + (has_head() ? 0 : 4 * units)}),
            .weight = batch[Field::weight]};
  if (!has_head()) ends.logits = ends.loss.rows(rows, rows + 2 * units);
  ends.criterion = this;
  return ends;
}

void PreferenceObjective::judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                                Stream& stream) const {
  const std::int64_t units = batch[Field::share].numel(), rows = kPreferenceRows * units;
  PreferenceProblem problem{.loss = loss.rows(0, rows).reshape({kPreferenceRows, units}),
                            .x = {},
                            .values = batch[Field::values],
                            .share = batch[Field::share],
                            .weight = weight};
  if (has_head()) {
    problem.x = scores.reshape({units, 2});
    return preference_loss(problem, rules_, stream);
  }
  const ConstTensor mask = batch[Field::loss_mask], lengths = batch[Field::lengths];
  const std::int64_t samples = units / pairs_;
  const Tensor sums = loss.rows(rows, rows + 4 * units).reshape({2, 2 * units});
  text_sums(sums, scores, mask, lengths, samples, stream);
  const Tensor said = loss.rows(rows, rows + 2 * units);
  problem.x = said.reshape({units, 2});
  problem.tokens = loss.rows(rows + 2 * units, rows + 4 * units).reshape({units, 2});
  problem.reference = batch[Field::reference].reshape({units, 2});
  preference_loss(problem, rules_, stream);
  if (weight) spread_over_texts(scores, said, mask, lengths, samples, stream);
}

void PreferenceObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                     const Fields& batch, Stream& stream) const {
  const ConstTensor share = batch[Field::share];
  const auto row = static_cast<std::int64_t>(term) * share.numel();
  dot(sum, ends.loss.rows(row, row + share.numel()), share, stream);
}

void PreferenceObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
