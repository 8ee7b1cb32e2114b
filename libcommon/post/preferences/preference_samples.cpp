#include "post/preferences/preference_samples.h"

#include <algorithm>

#include "data/samples/gpt_dataset.h"

namespace mt {

FieldSpecs preference_fields(std::int64_t seq_length, std::int64_t pairs) {
  FieldSpecs fields = gpt_fields(seq_length, true);
  fields.push_back({.field = Field::lengths, .per_sample = 2 * pairs, .of_tokens = false});
  fields.push_back({.field = Field::reference,
                    .dtype = DType::f32,
                    .per_sample = 2 * pairs,
                    .of_tokens = false});
  for (const Field field : {Field::values, Field::share})
    fields.push_back(
        {.field = field, .dtype = DType::f32, .per_sample = pairs, .of_tokens = false});
  return fields;
}

std::int64_t most_pairs(const Packed& packed) {
  std::int64_t most = 0;
  for (const Bin& bin : packed.bins) most = std::max<std::int64_t>(most, std::ssize(bin) / 2);
  return most;
}

void PreferenceSamples::get(std::int64_t k, const Fields& sample) const {
  packed_->get(k, sample);
  const std::size_t number = packed_->bin(k);
  const Bin& bin = packed_->packed().bins[number];
  const auto lengths = sample.span<std::int32_t>(Field::lengths);
  const auto reference = sample.span<float>(Field::reference),
             values = sample.span<float>(Field::values), share = sample.span<float>(Field::share);
  for (std::size_t i = 0; i < 2 * pairs_; ++i) {
    const bool is_there = i < bin.size();
    lengths[i] = is_there ? static_cast<std::int32_t>(bin[i].size()) : 0;
    reference[i] = is_there && reference_ && !reference_->empty()
                       ? static_cast<float>((*reference_)[number * 2 * pairs_ + i])
                       : 0.0F;
    if (i % 2 == 1) continue;
    values[i / 2] =
        is_there ? static_cast<float>(packed_->packed().examples[bin[i].text].value) : 0.0F;
    share[i / 2] = is_there ? 1.0F : 0.0F;
  }
}

static std::ptrdiff_t prompt_of(const Example& example) {
  return std::ranges::find(example.learnt, true) - example.learnt.begin();
}

std::vector<Example> with_others_completions(std::vector<Example> texts, std::int64_t group,
                                             std::int64_t longest) {
  std::vector<Example> pairs;
  const std::int64_t count = std::ssize(texts);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i / group * group, last = std::min(first + group, count) - 1;
    const Example& own = texts[static_cast<std::size_t>(i)];
    const Example& other = texts[static_cast<std::size_t>(i == first ? last : i - 1)];
    Example mixed = own;
    mixed.ids.resize(static_cast<std::size_t>(prompt_of(own)));
    mixed.learnt.resize(mixed.ids.size());
    mixed.ids.insert(mixed.ids.end(), other.ids.begin() + prompt_of(other), other.ids.end());
    mixed.learnt.insert(mixed.learnt.end(), other.learnt.begin() + prompt_of(other),
                        other.learnt.end());
    const auto room = static_cast<std::size_t>(longest - own.size());
    mixed.ids.resize(std::min(mixed.ids.size(), room));
    mixed.learnt.resize(mixed.ids.size());
    pairs.push_back(own);
    pairs.push_back(std::move(mixed));
  }
  return pairs;
}

}  // namespace mt
