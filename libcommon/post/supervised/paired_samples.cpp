#include "post/supervised/paired_samples.h"

#include <algorithm>

#include "data/samples/masking.h"
#include "data/samples/t5_dataset.h"

namespace mt {

FieldSpecs pair_fields(std::int64_t source, std::int64_t target) {
  FieldSpecs fields = t5_fields(source, target);
  fields.push_back({.field = Field::lengths, .per_sample = 1, .of_tokens = false});
  return fields;
}

PairedSamples::PairedSamples(std::unique_ptr<PackedSamples> pairs, const PairLengths& lengths)
    : pairs_(std::move(pairs)),
      lengths_(lengths),
      fields_(pair_fields(lengths.source, lengths.target)) {}

void PairedSamples::get(std::int64_t k, const Fields& sample) const {
  const Packed& packed = pairs_->packed();
  const Example& pair = packed.examples[packed.bins[pairs_->bin(k)].front().text];
  const auto of = [&](Field field) { return sample.span<std::int32_t>(field); };
  const std::span source = std::span(pair.ids).first(static_cast<std::size_t>(pair.source)),
                  target = std::span(pair.ids).subspan(source.size());
  fill_padded(of(Field::encoder_ids), source, lengths_.pad);
  fill_positions(of(Field::encoder_positions));
  of(Field::encoder_lengths)[0] = static_cast<std::int32_t>(source.size());
  const std::span ids = of(Field::ids);
  ids.front() = lengths_.start;
  fill_padded(ids.subspan(1), target.first(target.size() - 1), lengths_.pad);
  fill_positions(of(Field::positions));
  fill_padded(of(Field::labels), target, 0);
  const std::span loss_mask = sample.span<float>(Field::loss_mask);
  std::ranges::fill(loss_mask, 0.0F);
  std::ranges::fill(loss_mask.first(target.size()), 1.0F);
  of(Field::lengths)[0] = static_cast<std::int32_t>(target.size());
}

}  // namespace mt
