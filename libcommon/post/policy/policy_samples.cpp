#include "post/policy/policy_samples.h"

#include <algorithm>

#include "data/samples/gpt_dataset.h"
#include "kernels/policy_loss.h"

namespace mt {

FieldSpecs policy_fields(std::int64_t seq_length) {
  FieldSpecs fields = gpt_fields(seq_length, true);
  fields.push_back({.field = Field::lengths, .per_sample = 1, .of_tokens = false});
  fields.push_back({.field = Field::values, .dtype = DType::f32, .per_sample = seq_length});
  fields.push_back({.field = Field::reference, .dtype = DType::f32, .per_sample = 3 * seq_length});
  return fields;
}

void PolicySamples::get(std::int64_t sample_number, const Fields& sample) const {
  const std::int64_t k = how_.passes.text(sample_number);
  packed_->get(k, sample);
  const std::size_t number = packed_->bin(k);
  const Rollout& rollout = (*rollouts_)[number];
  sample.span<std::int32_t>(Field::lengths)[0] = static_cast<std::int32_t>(rollout.text.size());
  if (how_.masks_truncated && rollout.truncated)
    std::ranges::fill(sample.span<float>(Field::loss_mask), 0.0F);
  const auto values = sample.span<float>(Field::values),
             others = sample.span<float>(Field::reference);
  std::ranges::fill(values, 0.0F);
  std::ranges::fill(others, kUnknown);
  const auto put = [&](std::size_t which, const std::vector<float>& numbers, std::size_t n,
                       std::size_t t) {
    if (!numbers.empty()) others[3 * (t - 1) + which] = numbers[n];
  };
  rollout.for_each_learnt([&](std::size_t n, std::size_t t) {  // the label of token t - 1
    if (!rollout.advantages.empty()) values[t - 1] = rollout.advantages[n];
    put(0, rollout.old, n, t);
    put(1, rollout.reference, n, t);
    put(2, rollout.generated, n, t);
  });
  for (std::size_t i = 0; !reference_->empty() && i < values.size(); ++i)
    others[3 * i + 1] = static_cast<float>((*reference_)[number * values.size() + i]);
}

}  // namespace mt
