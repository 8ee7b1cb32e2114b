#include "post/policy/policy_samples.h"

#include <algorithm>

#include "data/samples/gpt_dataset.h"
#include "kernels/policy_loss.h"

namespace mt {

FieldSpecs policy_fields(std::int64_t seq_length, Packing packing, bool values,
                         std::int64_t choices) {
  FieldSpecs fields = gpt_fields(seq_length, true);
  fields.push_back(
      {.field = Field::lengths, .per_sample = texts_of_sample(packing), .of_tokens = false});
  fields.push_back({.field = Field::values, .dtype = DType::f32, .per_sample = seq_length});
  fields.push_back({.field = Field::reference, .dtype = DType::f32, .per_sample = 3 * seq_length});
  if (values)
    fields.push_back({.field = Field::returns, .dtype = DType::f32, .per_sample = 2 * seq_length});
  if (choices > 0) fields.push_back({.field = Field::experts, .per_sample = choices * seq_length});
  return fields;
}

// Samples of no more texts than there may be.
static void append_parted(std::span<const Bin> bins, std::size_t first_text, Packed& packed) {
  for (const Bin& bin : bins)
    for (std::size_t i = 0; i < bin.size(); ++i) {
      if (i % kMostTextsOfSample == 0) packed.bins.emplace_back();
      packed.bins.back().push_back({first_text + bin[i].text, bin[i].begin, bin[i].end});
    }
}

Packed pack_steps(std::vector<Example> texts, Packing packing, std::int64_t step,
                  std::int64_t seq_length) {
  Packed packed{.examples = std::move(texts), .bins = {}, .seq_length = seq_length};
  std::vector<std::int64_t> lengths;
  for (const Example& one : packed.examples) lengths.push_back(one.size());
  const std::size_t size = step > 0 ? static_cast<std::size_t>(step) : lengths.size();
  for (std::size_t first = 0; first < lengths.size(); first += size) {
    const auto of_step = std::span(lengths).subspan(first, std::min(size, lengths.size() - first));
    append_parted(pack(packing, of_step, seq_length), first, packed);
    if (step > 0) packed.bins.resize(first + of_step.size());
  }
  return packed;
}

void PolicySamples::get(std::int64_t k, const Fields& sample) const {
  packed_->get(how_.passes.text(k), sample);
  const auto lengths = sample.span<std::int32_t>(Field::lengths);
  const auto mask = sample.span<float>(Field::loss_mask),
             values = sample.span<float>(Field::values),
             others = sample.span<float>(Field::reference),
             returns = sample.span<float>(Field::returns);
  const auto experts = sample.span<std::int32_t>(Field::experts);
  const std::size_t row = values.size(), choices = experts.size() / row;
  std::ranges::fill(experts, -1);
  std::ranges::fill(lengths, 0);
  std::ranges::fill(values, 0.0F);
  std::ranges::fill(others, kUnknown);
  std::ranges::fill(returns, 0.0F);
  std::size_t begin = 0, text = 0;  // of the next text, in the sample
  for (const Piece& piece : bin(k)) {
    const Rollout& rollout = (*rollouts_)[piece.text];
    const auto size = static_cast<std::size_t>(piece.size());
    lengths[text++] = static_cast<std::int32_t>(size);
    if (how_.masks_truncated && rollout.truncated)
      std::ranges::fill(mask.subspan(begin, size), 0.0F);
    const auto put = [&](std::size_t which, const std::vector<float>& numbers, std::size_t n,
                         std::size_t at) {
      if (!numbers.empty()) others[which * row + at] = numbers[n];
    };
    rollout.for_each_learnt([&](std::size_t n, std::size_t t) {
      const std::size_t at = begin + t - 1;  // whose label it is
      if (!rollout.advantages.empty()) values[at] = rollout.advantages[n];
      put(0, rollout.old, n, at);
      put(1, rollout.reference, n, at);
      put(2, rollout.generated, n, at);
      if (!rollout.returns.empty()) {
        returns[at] = rollout.returns[n];
        returns[row + at] = rollout.values[n];
      }
    });
    for (std::size_t t = 0; !reference_->empty() && t < size; ++t)
      others[row + begin + t] = static_cast<float>((*reference_)[piece.text * row + t]);
    for (std::size_t t = 0; t < size; ++t)
      for (std::size_t i = 0; (t + 1) * choices <= rollout.experts.size() && i < choices; ++i)
        experts[i * row + begin + t] = rollout.experts[t * choices + i];
    begin += size;
  }
}

std::int64_t PolicySamples::filled(std::int64_t first, std::int64_t samples) const {
  std::int64_t count = 0;
  while (count < samples && first + count < size() && !bin(first + count).empty()) ++count;
  return count;
}

std::vector<double> PolicySamples::of_texts(std::span<const double> of_samples, Said which) const {
  const auto row = static_cast<std::size_t>(packed_->packed().seq_length);
  std::vector<double> all(rollouts_->size() * row);
  for (std::int64_t k = 0; k < packed_->size(); ++k) {
    const auto sample = static_cast<std::size_t>(k);
    std::size_t at = (how_.values ? 2 * sample + (which == Said::values ? 1 : 0) : sample) * row;
    for (const Piece& piece : bin(k)) {
      const auto size = static_cast<std::size_t>(piece.size());
      std::ranges::copy(of_samples.subspan(at, size),
                        all.begin() + static_cast<std::ptrdiff_t>(piece.text * row));
      at += size;
    }
  }
  return all;
}

std::unique_ptr<PolicySamples> samples_to_score(
    std::shared_ptr<const std::vector<Rollout>> rollouts, std::int64_t seq_length,
    const PolicySamples::How& how) {
  std::vector<Example> texts;
  for (const Rollout& one : *rollouts) texts.push_back(one.text);
  auto packed =
      std::make_shared<const Packed>(pack_steps(std::move(texts), how.packing, 0, seq_length));
  return std::make_unique<PolicySamples>(
      std::make_unique<PackedSamples>("texts", std::move(packed), PackedSamples::Order{}),
      std::move(rollouts), std::make_shared<const std::vector<double>>(),
      PolicySamples::How{.packing = how.packing, .values = how.values, .choices = how.choices});
}

}  // namespace mt
