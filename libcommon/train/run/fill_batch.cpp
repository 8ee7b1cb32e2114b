#include "train/run/fill_batch.h"

#include <algorithm>

namespace mt {

double fill_batch(const SampleSet& set, std::int64_t first, std::int64_t sequences,
                  const Batch& batch) {
  const auto length = static_cast<std::size_t>(set.data.seq_length());
  std::vector<float> mask(length * static_cast<std::size_t>(sequences));
  double sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(sequences); ++i) {
    const auto part = [&](const auto& all) { return all.subspan(i * length, length); };
    const auto ints = [&](const Tensor& all) { return part(all.span<std::int32_t>()); };
    const auto sample = set.order.sample(first + static_cast<std::int64_t>(i));
    set.data.get(sample.value_or(0),
                 {.tokens = ints(batch.ids),
                  .labels = ints(batch.labels),
                  .positions = ints(batch.positions),
                  .first_key = batch.first_key ? ints(batch.first_key) : std::span<std::int32_t>(),
                  .loss_mask = part(std::span(mask))});
    if (!sample) std::ranges::fill(part(std::span(mask)), 0.0F);
  }
  for (const float m : mask) sum += static_cast<double>(m);
  with_float_type(batch.loss_mask.dtype(),
                  [&]<class T>() { std::ranges::copy(mask, batch.loss_mask.as<T>()); });
  return sum;
}

void weigh_rows(const Batch& batch, double weight) {
  with_float_type(batch.loss_mask.dtype(), [&]<class T>() {
    std::ranges::transform(batch.loss_mask.span<T>(), batch.row_weight.as<T>(),
                           [=](T mask) { return mask * static_cast<T>(weight); });
  });
}

}  // namespace mt
