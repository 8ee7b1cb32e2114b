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
          {.field = Field::share, .dtype = DType::f32, .per_sample = seq_length_}};
}

// Calls body(first, tokens that count) for each sample of a micro-batch.
template <class T, class Body>
static void for_each_text(const Fields& batch, std::int64_t seq_length, const Body& body) {
  const auto mask = batch.span<T>(Field::loss_mask);
  const auto length = static_cast<std::size_t>(seq_length);
  for (std::size_t first = 0; first < mask.size(); first += length) {
    const auto text = mask.subspan(first, length);
    body(first, std::accumulate(text.begin(), text.end(), 0.0));
  }
}

// Texts that are padding have no tokens that count, and are none.
double PolicyObjective::count(std::size_t term, const Fields& batch) const {
  const bool of_tokens =
      term > 0 || share_ == PolicyShare::of_tokens || share_ == PolicyShare::of_micro_batch;
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for_each_text<T>(batch, seq_length_, [&](std::size_t, double tokens) {
      total += of_tokens ? tokens : tokens > 0 ? 1 : 0;
    });
  });
  return total;
}

void PolicyObjective::weigh(const Fields& batch, std::span<const double> each) const {
  const double counted = std::max(1.0, count(0, batch));
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    const auto mask = batch.span<T>(Field::loss_mask), weight = batch.span<T>(Field::weight),
               share = batch.span<T>(Field::share);
    for_each_text<T>(batch, seq_length_, [&](std::size_t first, double tokens) {
      const double part = share_ == PolicyShare::of_texts     ? 1 / std::max(1.0, tokens)
                          : share_ == PolicyShare::of_longest ? 1 / static_cast<double>(longest_)
                                                              : 1;
      const double in_value = share_ == PolicyShare::of_micro_batch ? part / counted : part;
      for (std::size_t i = first; i < first + static_cast<std::size_t>(seq_length_); ++i) {
        weight[i] = mask[i] * static_cast<T>(part * each[0]);
        share[i] = mask[i] * static_cast<T>(in_value);
      }
    });
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
               .others = batch[Field::reference].reshape({tokens, 3}),
               .advantage = batch[Field::values],
               .mask = batch[Field::loss_mask],
               .lengths = batch[Field::lengths],
               .weight = weight,
               .rows = tokens / seq_length_},
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
