#include "post/policy/drawn_samples.h"

#include "base/error.h"

namespace mt {

DrawnSamples::~DrawnSamples() = default;

const PolicySamples& DrawnSamples::of_step(std::int64_t k) const {
  if (!has(k)) fail(Exit::internal, name_, ": sample ", k, " is not of the step that was drawn");
  return *step_;
}

void DrawnSamples::get(std::int64_t k, const Fields& sample) const {
  of_step(k).get(k - first_, sample);
}

std::vector<std::string> DrawnSamples::lines(std::int64_t k, const Tokenizer& tokenizer) const {
  return of_step(k).lines(k - first_, tokenizer);
}

void DrawnSamples::write(std::int64_t k, const Tokenizer& tokenizer, JsonWriter& json) const {
  of_step(k).write(k - first_, tokenizer, json);
}

void DrawnSamples::put(std::int64_t first, std::vector<Rollout> rollouts) {
  std::vector<Example> texts;
  for (const Rollout& one : rollouts) texts.push_back(one.text);
  auto packed = std::make_shared<const Packed>(
      pack_steps(std::move(texts), how_.packing, step_size_, seq_length_));
  step_ = std::make_unique<PolicySamples>(
      std::make_unique<PackedSamples>(name_, std::move(packed), PackedSamples::Order{}),
      std::make_shared<const std::vector<Rollout>>(std::move(rollouts)),
      std::make_shared<const std::vector<double>>(), how_);
  first_ = first;
}

}  // namespace mt
