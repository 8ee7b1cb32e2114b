#include "train/run/further_objective.h"

#include <algorithm>

#include "model/config/mtp_config.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

FurtherObjective::FurtherObjective(std::int64_t depths, double weight, std::int64_t seq_length)
    : seq_length_(static_cast<std::size_t>(seq_length)) {
  static constexpr const char* kNames[] = {"mtp_1 loss", "mtp_2 loss", "mtp_3 loss", "mtp_4 loss",
                                           "mtp_5 loss", "mtp_6 loss", "mtp_7 loss"};
  static_assert(std::size(kNames) == kMostFurther && kMostFurther < kMostLosses);
  terms_.push_back(words_.terms().front());
  for (std::int64_t i = 0; i < depths; ++i)
    terms_.push_back({.name = kNames[i],
                      .mean = Term::Mean::of_micro_batches,
                      .weight = weight / static_cast<double>(depths)});
}

FieldSpecs FurtherObjective::fields(const FieldSpecs& of_samples) const {
  FieldSpecs specs = words_.fields(of_samples);
  const std::int64_t elements =
      depths() * std::ranges::find(of_samples, Field::ids, &FieldSpec::field)->per_sample;
  for (const Field field : {Field::further_ids, Field::further_labels})
    specs.push_back({.field = field, .per_sample = elements, .ahead = true});
  specs.push_back(
      {.field = Field::further_share, .dtype = DType::f32, .per_sample = elements, .ahead = true});
  specs.push_back({.field = Field::further_weight, .dtype = DType::f32, .per_sample = elements});
  return specs;
}

Tensor FurtherObjective::of_term(const Tensor& all, std::size_t term) const {
  const std::int64_t tokens = all.numel() / depths(),
                     begin = (static_cast<std::int64_t>(term) - 1) * tokens;
  return all.rows(begin, begin + tokens);
}

// Fills each depth's part of `to` with what stands that much further on in each of the rows of
// `from`, and with zeros where they end.
template <class T, class Change>
static void look(std::span<T> to, std::span<const T> from, std::size_t row, const Change& change) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t depth = i / from.size(), at = i % from.size(), by = depth + 1;
    to[i] = at % row + by < row ? change(depth, from[at + by]) : T(0);
  }
}

void FurtherObjective::look_ahead(const Fields& whole) const {
  const auto same = [](std::size_t, std::int32_t token) { return token; };
  const auto tokens = [&](Field field) { return whole.span<std::int32_t>(field); };
  look<std::int32_t>(tokens(Field::further_ids), tokens(Field::ids), seq_length_, same);
  look<std::int32_t>(tokens(Field::further_labels), tokens(Field::labels), seq_length_, same);
  with_float_type(whole[Field::loss_mask].dtype(), [&]<class T>() {
    const std::span<const T> mask = whole.span<T>(Field::loss_mask);
    std::vector<double> counted(static_cast<std::size_t>(depths()));
    for (std::size_t i = 0; i < mask.size(); ++i)
      for (std::size_t depth = 0; depth < std::min(counted.size(), i % seq_length_); ++depth)
        counted[depth] += static_cast<double>(mask[i]);
    look<T>(whole.span<T>(Field::further_share), mask, seq_length_, [&](std::size_t depth, T m) {
      return m / static_cast<T>(std::max(1.0, counted[depth]));
    });
  });
}

double FurtherObjective::count(std::size_t term, const Fields& batch) const {
  if (term == 0) return words_.count(0, batch);
  double count = 0;
  const Tensor share = of_term(batch[Field::further_share], term);
  with_float_type(share.dtype(), [&]<class T>() {
    count = static_cast<double>(
        std::ranges::count_if(share.span<T>(), [](T each) { return each > 0; }));
  });
  return count;
}

void FurtherObjective::weigh(const Fields& batch, std::span<const double> each) const {
  words_.weigh(batch, each.first(1));
  for (std::size_t term = 1; term < terms_.size(); ++term)
    with_float_type(batch[Field::further_share].dtype(), [&]<class T>() {
      const std::span<T> share = of_term(batch[Field::further_share], term).template span<T>(),
                         weight = of_term(batch[Field::further_weight], term).template span<T>();
      std::ranges::transform(share, weight.begin(), [&](T counts) {
        return counts > 0 ? static_cast<T>(each[term]) : T(0);
      });
    });
}

Ends FurtherObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  Ends ends = words_.ends(batch, keep, real);
  ends.further_loss = keep.alloc(real, batch[Field::further_labels].shape());
  return ends;
}

void FurtherObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                  const Fields& batch, Stream& stream) const {
  if (term == 0) return words_.sum_losses(0, sum, ends, batch, stream);
  dot(sum, of_term(ends.further_loss, term), of_term(batch[Field::further_share], term), stream);
}

void FurtherObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  words_.scale_weights(batch, by, stream);
  scale(batch[Field::further_weight], batch[Field::further_weight], by, stream);
}

}  // namespace mt
