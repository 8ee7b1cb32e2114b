#include "post/policy/policy_objective.h"

#include <algorithm>
#include <numeric>

#include "ops/ops.h"
#include "ops/policy_loss.h"
#include "tensor/arena.h"

namespace mt {

std::span<const Term> PolicyObjective::terms() const {
  static constexpr Term kTerms[] = {{.name = "policy loss"},
                                    {.name = "kl", .weight = 0},
                                    {.name = "ratio", .weight = 0},
                                    {.name = "clipped low", .weight = 0},
                                    {.name = "clipped high", .weight = 0}};
  static constexpr Term kOfMicroBatches[] = {
      {.name = "policy loss", .mean = Term::Mean::of_micro_batches},
      kTerms[1],
      kTerms[2],
      kTerms[3],
      kTerms[4]};
  if (share_ == PolicyShare::of_micro_batch) return kOfMicroBatches;
  return kTerms;
}

FieldSpecs PolicyObjective::fields(const FieldSpecs&) const {
  return {{.field = Field::weight, .dtype = DType::f32, .per_sample = seq_length_},
          {.field = Field::share, .dtype = DType::f32, .per_sample = seq_length_, .ahead = true},
          {.field = Field::rows, .per_sample = seq_length_, .ahead = true},
          {.field = Field::targets,
           .per_sample = rules_.needs_texts() ? texts_ : 1,
           .of_tokens = false}};
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
  if (term == 0 && share_ != PolicyShare::of_tokens && share_ != PolicyShare::of_micro_batch)
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
    std::ranges::transform(batch.span<T>(counts), batch.span<T>(Field::weight).begin(),
                           [&](T count) { return count * static_cast<T>(each[0]); });
  });
}

// Losses: kPolicyRows numbers a token, row by row, of which the last are what an evaluation
// collects.
Ends PolicyObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  const std::int64_t tokens = batch[Field::labels].numel();
  Ends ends{.loss = keep.alloc(real, {kPolicyRows * tokens}), .weight = batch[Field::weight]};
  ends.logits = ends.loss.rows((kPolicyRows - 1) * tokens, kPolicyRows * tokens);
  ends.criterion = this;
  ends.temperature = temperature_;
  return ends;
}

void PolicyObjective::judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                            Stream& stream) const {
  const std::int64_t tokens = scores.numel();
  policy_loss({.loss = loss.reshape({kPolicyRows, tokens}),
               .x = scores,
               .others = batch[Field::reference].reshape({3 * tokens}),
               .advantage = batch[Field::values],
               .mask = batch[Field::loss_mask],
               .lengths = batch[Field::targets],
               .weight = weight,
               .rows = batch[Field::lengths].numel() / texts_},
              rules_, stream);
}

void PolicyObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                 const Fields& batch, Stream& stream) const {
  const std::int64_t tokens = batch[Field::labels].numel();
  const auto row = static_cast<std::int64_t>(term) * tokens;
  dot(sum, ends.loss.rows(row, row + tokens), batch[term == 0 ? Field::share : Field::loss_mask],
      stream);
}

void PolicyObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
