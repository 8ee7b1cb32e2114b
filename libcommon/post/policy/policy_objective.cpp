#include "post/policy/policy_objective.h"

#include <algorithm>
#include <numeric>

#include "ops/ops.h"
#include "ops/policy_loss.h"
#include "ops/value_loss.h"
#include "tensor/arena.h"

namespace mt {

PolicyObjective::PolicyObjective(const PolicyRules& rules, const How& how)
    : terms_{{.name = "policy loss"},
             {.name = "kl", .weight = 0},
             {.name = "ratio", .weight = 0},
             {.name = "clipped low", .weight = 0},
             {.name = "clipped high", .weight = 0}},
      rules_(rules),
      share_(how.share),
      longest_(how.longest),
      seq_length_(how.seq_length),
      temperature_(how.temperature),
      texts_(how.texts),
      values_(how.values) {
  if (values_) {
    terms_.push_back({.name = "value loss", .weight = values_->weight});
    terms_.push_back({.name = "values clipped", .weight = 0});
  }
  for (std::size_t i = 0; share_ == PolicyShare::of_micro_batch && i < terms_.size(); ++i)
    if (is_shared(i)) terms_[i].mean = Term::Mean::of_micro_batches;
}

FieldSpecs PolicyObjective::fields(const FieldSpecs&) const {
  FieldSpecs fields{
      {.field = Field::weight, .dtype = DType::f32, .per_sample = seq_length_},
      {.field = Field::share, .dtype = DType::f32, .per_sample = seq_length_, .ahead = true},
      {.field = Field::rows, .per_sample = seq_length_, .ahead = true},
      {.field = Field::targets,
       .per_sample = rules_.needs_texts() ? texts_ : 1,
       .of_tokens = false}};
  if (values_)
    fields.push_back(
        {.field = Field::value_weight, .dtype = DType::f32, .per_sample = seq_length_});
  return fields;
}

template <class T>
static double sum_of_all(std::span<const T> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

void PolicyObjective::look_ahead(const Fields& whole) const {
  const auto lengths = whole.span<std::int32_t>(Field::lengths),
             rows = whole.span<std::int32_t>(Field::rows);
  std::ranges::fill(rows, 0);
  with_float_type(whole[Field::loss_mask].dtype(), [&]<class T>() {
    const auto mask = whole.span<T>(Field::loss_mask), share = whole.span<T>(Field::share);
    const double all = std::max(1.0, sum_of_all<T>(mask));
    std::ranges::fill(share, T(0));
    for (std::size_t i = 0, at = 0; i < lengths.size(); ++i) {
      if (i % static_cast<std::size_t>(texts_) == 0)
        at = i / static_cast<std::size_t>(texts_) * static_cast<std::size_t>(seq_length_);
      const std::size_t end = at + static_cast<std::size_t>(lengths[i]);
      const double tokens = sum_of_all<T>(mask.subspan(at, end - at));
      const double part = share_ == PolicyShare::of_texts     ? 1 / std::max(1.0, tokens)
                          : share_ == PolicyShare::of_longest ? 1 / static_cast<double>(longest_)
                          : share_ == PolicyShare::of_micro_batch ? 1 / all
                                                                  : 1;
      for (bool first = true; at < end; ++at) {
        share[at] = mask[at] * static_cast<T>(part);
        if (first && mask[at] != 0) {
          rows[at] = 1;
          first = false;
        }
      }
    }
  });
}

// Texts of which no token counts are none.
double PolicyObjective::count(std::size_t term, const Fields& batch) const {
  if (is_shared(term) && share_ != PolicyShare::of_tokens && share_ != PolicyShare::of_micro_batch)
    return sum_of_all<std::int32_t>(batch.span<std::int32_t>(Field::rows));
  double tokens = 0;
  with_float_type(batch[Field::loss_mask].dtype(),
                  [&]<class T>() { tokens = sum_of_all<T>(batch.span<T>(Field::loss_mask)); });
  return tokens;
}

void PolicyObjective::weigh(const Fields& batch, std::span<const double> each) const {
  const auto lengths = batch.span<std::int32_t>(Field::lengths),
             targets = batch.span<std::int32_t>(Field::targets);
  const Field counts =
      share_ == PolicyShare::of_micro_batch ? Field::loss_mask : Field::share;  // with each token
  if (rules_.needs_texts())
    std::ranges::copy(lengths, targets.begin());
  else
    std::ranges::fill(
        targets, static_cast<std::int32_t>(batch[Field::labels].numel() / std::ssize(targets)));
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    const auto weigh = [&](Field field, double by) {
      std::ranges::transform(batch.span<T>(counts), batch.span<T>(field).begin(),
                             [&](T count) { return count * static_cast<T>(by); });
    };
    weigh(Field::weight, each[0]);
    if (values_) weigh(Field::value_weight, each[kValueTerm]);
  });
}

// What is told of each token, row by row: kernels/policy_loss.h's numbers, of which the last are
// what an evaluation collects; with a value head then values, their losses, and whether they were
// clipped; and what an evaluation collects then, which is of each sample by itself.
namespace {
constexpr std::int64_t kSaidRow = kPolicyRows - 1, kValueRow = kPolicyRows,
                       kValueLossRow = kPolicyRows + 1, kCollectedRow = kPolicyRows + 3,
                       kRowsWithValues = kPolicyRows + 5;
}  // namespace

Ends PolicyObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t tokens = batch[Field::labels].numel(),
                     rows = values_ ? kRowsWithValues : kPolicyRows;
  Ends ends{.loss = keep.alloc(real, {rows * tokens}), .weight = batch[Field::weight]};
  ends.logits = ends.loss.rows((values_ ? kCollectedRow : kSaidRow) * tokens, rows * tokens);
  ends.criterion = this;
  ends.temperature = temperature_;
  return ends;
}

void PolicyObjective::judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                            Stream& stream) const {
  const std::int64_t tokens = batch[Field::labels].numel(),
                     samples = batch[Field::lengths].numel() / texts_;
  const auto row = [&](const Tensor& all, std::int64_t number, std::int64_t count = 1) {
    return all.rows(number * tokens, (number + count) * tokens);
  };
  if (values_) {
    copy(row(loss, kValueRow), row(scores, 1), stream);
    value_loss({.loss = row(loss, kValueLossRow, 2).reshape({2, tokens}),
                .x = row(scores, 1),
                .returns = batch[Field::returns].reshape({2 * tokens}),
                .mask = batch[Field::loss_mask],
                .weight = weight ? ConstTensor(batch[Field::value_weight]) : ConstTensor(),
                .rows = samples},
               values_->clip, stream);
  }
  policy_loss({.loss = row(loss, 0, kPolicyRows).reshape({kPolicyRows, tokens}),
               .x = row(scores, 0),
               .others = batch[Field::reference].reshape({3 * tokens}),
               .advantage = batch[Field::values],
               .mask = batch[Field::loss_mask],
               .lengths = batch[Field::targets],
               .weight = weight,
               .rows = samples},
              rules_, stream);
  if (values_)
    swap_axes(row(loss, kCollectedRow, 2).reshape({samples, 2, tokens / samples}),
              row(loss, kSaidRow, 2).reshape({2, samples, tokens / samples}), 2, samples, stream);
}

void PolicyObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                 const Fields& batch, Stream& stream) const {
  const std::int64_t tokens = batch[Field::labels].numel();
  const std::int64_t number = static_cast<std::int64_t>(term) +
                              (term < kValueTerm ? 0 : kValueLossRow - std::int64_t{kValueTerm});
  dot(sum, ends.loss.rows(number * tokens, (number + 1) * tokens),
      batch[is_shared(term) ? Field::share : Field::loss_mask], stream);
}

void PolicyObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
  if (values_) scale(batch[Field::value_weight], batch[Field::value_weight], by, stream);
}

}  // namespace mt
