#include "train/run/further_objective.h"

#include <algorithm>

#include "model/config/mtp_config.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

FurtherObjective::FurtherObjective(std::unique_ptr<const Objective> next, std::int64_t depths,
                                   double weight, std::int64_t seq_length, bool within_texts)
    : next_(std::move(next)),
      seq_length_(static_cast<std::size_t>(seq_length)),
      within_texts_(within_texts),
      terms_(next_->terms().begin(), next_->terms().end()) {
  static constexpr const char* kNames[] = {"mtp_1 loss", "mtp_2 loss", "mtp_3 loss", "mtp_4 loss",
                                           "mtp_5 loss", "mtp_6 loss", "mtp_7 loss"};
  static_assert(std::size(kNames) == kMostFurther && kMostFurther < kMostLosses);
  for (std::int64_t i = 0; i < depths; ++i)
    terms_.push_back({.name = kNames[i],
                      .mean = Term::Mean::of_micro_batches,
                      .weight = weight / static_cast<double>(depths)});
}

FieldSpecs FurtherObjective::fields(const FieldSpecs& of_samples) const {
  FieldSpecs specs = next_->fields(of_samples);
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
                     begin = static_cast<std::int64_t>(term - own()) * tokens;
  return all.rows(begin, begin + tokens);
}

// Fills each depth's part of `to` with what stands that much further on in each of the rows of
// `from`, and with zeros where they end.
template <class T>
static void look(std::span<T> to, std::span<const T> from, std::size_t row) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t at = i % from.size(), by = i / from.size() + 1;
    to[i] = at % row + by < row ? from[at + by] : T(0);
  }
}

void FurtherObjective::look_ahead(const Fields& whole) const {
  const auto tokens = [&](Field field) { return whole.span<std::int32_t>(field); };
  look<std::int32_t>(tokens(Field::further_ids), tokens(Field::ids), seq_length_);
  look<std::int32_t>(tokens(Field::further_labels), tokens(Field::labels), seq_length_);
  with_float_type(whole[Field::loss_mask].dtype(), [&]<class T>() {
    const std::span<T> all = whole.span<T>(Field::further_share);
    look<T>(all, whole.span<T>(Field::loss_mask), seq_length_);
    const std::size_t count = all.size() / static_cast<std::size_t>(depths());
    for (std::size_t by = 1; by * count <= all.size(); ++by) {
      const std::span<T> share = all.subspan((by - 1) * count, count);  // masks, to begin with
      double counted = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (share[i] > 0 && within_texts_ &&
            static_cast<std::size_t>(tokens(Field::first_key)[i + by]) > i % seq_length_)
          share[i] = 0;
        counted += static_cast<double>(share[i]);
      }
      for (T& each : share) each = each / static_cast<T>(std::max(1.0, counted));
    }
  });
}

double FurtherObjective::count(std::size_t term, const Fields& batch) const {
  if (term < own()) return next_->count(term, batch);
  double count = 0;
  const Tensor share = of_term(batch[Field::further_share], term);
  with_float_type(share.dtype(), [&]<class T>() {
    count = static_cast<double>(
        std::ranges::count_if(share.span<T>(), [](T each) { return each > 0; }));
  });
  return count;
}

void FurtherObjective::weigh(const Fields& batch, std::span<const double> each) const {
  next_->weigh(batch, each.first(own()));
  for (std::size_t term = own(); term < terms_.size(); ++term)
    with_float_type(batch[Field::further_share].dtype(), [&]<class T>() {
      const std::span<T> share = of_term(batch[Field::further_share], term).template span<T>(),
                         weight = of_term(batch[Field::further_weight], term).template span<T>();
      std::ranges::transform(share, weight.begin(), [&](T counts) {
        return counts > 0 ? static_cast<T>(each[term]) : T(0);
      });
    });
}

Ends FurtherObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  Ends ends = next_->ends(batch, keep, real);
  ends.further_loss = keep.alloc(real, batch[Field::further_labels].shape());
  return ends;
}

void FurtherObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                  const Fields& batch, Stream& stream) const {
  if (term < own()) return next_->sum_losses(term, sum, ends, batch, stream);
  dot(sum, of_term(ends.further_loss, term), of_term(batch[Field::further_share], term), stream);
}

void FurtherObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  next_->scale_weights(batch, by, stream);
  scale(batch[Field::further_weight], batch[Field::further_weight], by, stream);
}

}  // namespace mt
