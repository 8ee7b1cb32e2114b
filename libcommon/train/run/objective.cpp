#include "train/run/objective.h"

#include <algorithm>

#include "model/model.h"
#include "ops/ops.h"
#include "tensor/arena.h"

namespace mt {

TermValues Objective::values(std::span<const LossSum> sums) const {
  TermValues values;
  for (std::size_t i = 0; i < std::min(terms().size(), sums.size()); ++i)
    values.push_back({terms()[i].name, sums[i].mean()});
  return values;
}

double Objective::total(const TermValues& values) const {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += terms()[i].weight * values[i].value;
  return total;
}

std::span<const Term> LanguageModelling::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss"}};
  return kTerms;
}

FieldSpecs LanguageModelling::fields(const FieldSpecs& of_samples) const {
  FieldSpec weight = *std::ranges::find(of_samples, Field::loss_mask, &FieldSpec::field);
  weight.field = Field::weight;
  return {weight};
}

double LanguageModelling::count(std::size_t, const Fields& batch) const {
  double total = 0;
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    for (const T m : batch.span<T>(Field::loss_mask)) total += static_cast<double>(m);
  });
  return total;
}

void LanguageModelling::weigh(const Fields& batch, std::span<const double> each) const {
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    std::ranges::transform(batch.span<T>(Field::loss_mask), batch[Field::weight].as<T>(),
                           [&](T mask) { return mask * static_cast<T>(each[0]); });
  });
}

Ends LanguageModelling::ends(const Fields& batch, Arena& keep, DType real) const {
  return {.loss = keep.alloc(real, batch[Field::labels].shape()), .weight = batch[Field::weight]};
}

void LanguageModelling::sum_losses(std::size_t, Tensor sum, const Ends& ends, const Fields& batch,
                                   Stream& stream) const {
  dot(sum, ends.loss, batch[Field::loss_mask], stream);
}

void LanguageModelling::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

// --- Masked words ------------------------------------------------------------------------------

std::span<const Term> MaskedModelling::terms() const {
  static constexpr Term kTerms[] = {{.name = "lm loss", .mean = Term::Mean::of_micro_batches},
                                    {.name = "sop loss", .mean = Term::Mean::of_micro_batches}};
  return std::span(kTerms).first(with_order_ ? 2 : 1);
}

// A row for each place that may be masked and, behind those of all samples, for each text's first
// token.
FieldSpecs MaskedModelling::fields(const FieldSpecs& of_samples) const {
  const auto per_sample = [&](Field field) {
    return std::ranges::find(of_samples, field, &FieldSpec::field)->per_sample;
  };
  const std::int64_t tokens = per_sample(Field::ids);
  const std::int64_t rows = per_sample(Field::masked) + (with_order_ ? texts_ : 0);
  return {{.field = Field::first_key, .per_sample = tokens},
          {.field = Field::row_of, .per_sample = tokens},
          {.field = Field::rows, .per_sample = rows, .of_tokens = false},
          {.field = Field::targets, .per_sample = rows, .of_tokens = false},
          {.field = Field::weight, .dtype = DType::f32, .per_sample = rows, .of_tokens = false},
          {.field = Field::share, .dtype = DType::f32, .per_sample = rows, .of_tokens = false}};
}

static Field mask_of(std::size_t term) { return term == 0 ? Field::loss_mask : Field::order_mask; }

static double sum_of(const Tensor& mask) {
  double total = 0;
  with_float_type(mask.dtype(), [&]<class T>() {
    for (const T m : mask.span<T>()) total += static_cast<double>(m);
  });
  return total;
}

double MaskedModelling::count(std::size_t term, const Fields& batch) const {
  return sum_of(batch[mask_of(term)]);
}

void part_texts(const Fields& batch, std::size_t texts) {
  const auto lengths = batch.span<std::int32_t>(Field::lengths);
  const auto first_key = batch.span<std::int32_t>(Field::first_key);
  const std::size_t tokens = first_key.size() / (lengths.size() / texts);
  for (std::size_t i = 0; i < lengths.size(); i += texts) {
    auto rest = first_key.subspan(i / texts * tokens, tokens);
    std::int32_t begin = 0;
    for (const std::int32_t length : lengths.subspan(i, texts)) {
      std::ranges::fill(rest.first(static_cast<std::size_t>(length)), begin);
      rest = rest.subspan(static_cast<std::size_t>(length));
      begin += length;
    }
    std::ranges::fill(rest, begin);
  }
}

// Fills rows, row_of and targets.  A row that is not needed is the micro-batch's first token.
template <class T>
static void find_rows(const Fields& batch, bool with_order, std::size_t texts) {
  const auto of = [&](Field field) { return batch.span<std::int32_t>(field); };
  const auto masked = of(Field::masked), labels = of(Field::labels), order = of(Field::order);
  const auto row_of = of(Field::row_of), rows = of(Field::rows), targets = of(Field::targets);
  const auto mask = batch.span<T>(Field::loss_mask);
  const auto lengths = of(Field::lengths);
  const std::size_t samples = lengths.size() / texts;
  const std::size_t tokens = row_of.size() / samples, places = masked.size() / samples;
  std::ranges::fill(row_of, -1);
  const auto put = [&](std::size_t row, std::size_t token, std::int32_t target) {
    rows[row] = static_cast<std::int32_t>(token);
    row_of[token] = static_cast<std::int32_t>(row);
    targets[row] = target;
  };
  for (std::size_t i = 0; i < masked.size(); ++i) {
    rows[i] = targets[i] = 0;
    if (mask[i] != 0) put(i, i / places * tokens + static_cast<std::size_t>(masked[i]), labels[i]);
  }
  std::size_t begin = 0;  // of a text in its sample
  for (std::size_t i = 0; with_order && i < lengths.size(); ++i) {
    const std::size_t row = masked.size() + i;
    if (i % texts == 0) begin = 0;
    rows[row] = targets[row] = 0;
    if (lengths[i] > 0) put(row, i / texts * tokens + begin, order[i]);
    begin += static_cast<std::size_t>(lengths[i]);
  }
}

void MaskedModelling::weigh(const Fields& batch, std::span<const double> each) const {
  const auto texts = static_cast<std::size_t>(texts_);
  part_texts(batch, texts);
  with_float_type(batch[Field::weight].dtype(), [&]<class T>() {
    find_rows<T>(batch, with_order_, texts);
    std::size_t row = 0;
    for (std::size_t term = 0; term < terms().size(); ++term) {
      const double counted = std::max(1.0, count(term, batch));
      for (const T mask : batch.span<T>(mask_of(term))) {
        batch.span<T>(Field::weight)[row] = mask * static_cast<T>(each[term]);
        batch.span<T>(Field::share)[row++] = mask / static_cast<T>(counted);
      }
    }
  });
}

Ends MaskedModelling::ends(const Fields& batch, Arena& keep, DType real) const {
  return {.loss = keep.alloc(real, batch[Field::rows].shape()), .weight = batch[Field::weight]};
}

void MaskedModelling::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                 const Fields& batch, Stream& stream) const {
  const std::int64_t words = batch[Field::masked].numel();
  const std::int64_t begin = term == 0 ? 0 : words, end = term == 0 ? words : ends.loss.numel();
  dot(sum, ends.loss.rows(begin, end), batch[Field::share].rows(begin, end), stream);
}

void MaskedModelling::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  scale(batch[Field::weight], batch[Field::weight], by, stream);
}

}  // namespace mt
