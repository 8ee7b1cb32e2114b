#include "data/samples/blended_dataset.h"

#include <bit>
#include <cassert>
#include <limits>

#include "base/error.h"
#include "data/samples/bert_dataset.h"
#include "data/samples/ict_dataset.h"
#include "data/samples/split.h"
#include "data/samples/t5_dataset.h"

namespace mt {
namespace {

// The bits of the numbers, so that near ones differ too.
std::string text_of(std::span<const double> weights, std::int64_t samples, bool exhaustive) {
  std::string text = concat("blending index 1 of ", samples, " samples, ",
                            exhaustive ? "each once" : "any number of times", ", weights");
  for (const double weight : weights) text += concat(" ", std::bit_cast<std::uint64_t>(weight));
  return text;
}

// Both arrays: which dataset, then which of its samples, which follows from the first.
void put_blend(IndexWriter& writer, std::span<const double> weights,
               std::span<const std::int64_t> sizes, std::int64_t samples) {
  std::vector<std::int16_t> order;
  order.reserve(static_cast<std::size_t>(samples));
  blend_samples(weights, sizes, samples,
                [&](std::size_t dataset) { order.push_back(static_cast<std::int16_t>(dataset)); });
  writer.put_all(std::span<const std::int16_t>(order));
  writer.next_array();
  std::vector<std::int64_t> taken(weights.size());
  for (const std::int16_t dataset : order) writer.put(taken[static_cast<std::size_t>(dataset)]++);
}

}  // namespace

template <class Dataset>
Blended<Dataset>::Blended(Dataset alone) {
  datasets_.push_back(std::move(alone));
}

template <class Dataset>
Blended<Dataset>::Blended(std::vector<Dataset> datasets, std::vector<double> weights,
                          std::optional<std::int64_t> samples, const IndexCache& cache)
    : datasets_(std::move(datasets)) {
  assert(datasets_.size() == weights.size() && !weights.empty());
  if (datasets_.size() >= std::numeric_limits<std::int16_t>::max())
    fail(Exit::usage, datasets_.size(), " datasets in a blend, expected fewer than ",
         std::numeric_limits<std::int16_t>::max());
  for (std::size_t d = 0; d < weights.size(); ++d)
    if (!(weights[d] > 0))
      fail(Exit::bad_config, datasets_[d].data().name(), ": gives a blend ", weights[d],
           " samples, expected at least one");
  std::vector<std::int64_t> sizes;
  if (!samples)
    for (const Dataset& dataset : datasets_) sizes.push_back(dataset.size());
  std::int64_t count = samples.value_or(0);
  for (const std::int64_t size : sizes) count += size;
  if (samples)
    weights = normalized(weights);
  else  // an exact sum, as long as it is below 2^53
    for (double& weight : weights) weight /= static_cast<double>(count);

  IndexContent content;
  if (cache.kept()) content.text = text_of(weights, count, !samples);
  content.arrays = {{2, count}, {8, count}};
  content.make = [&](IndexWriter& writer) { put_blend(writer, weights, sizes, count); };
  arrays_ = cache.get(content);
  dataset_index_ = arrays_.get<std::int16_t>(0);
  sample_index_ = arrays_.get<std::int64_t>(1);
  check_shares();
}

template <class Dataset>
void Blended<Dataset>::check_shares() const {
  std::vector<std::int64_t> taken(datasets_.size());
  for (const std::int16_t dataset : dataset_index_) {
    if (dataset < 0 || static_cast<std::size_t>(dataset) >= taken.size())
      fail(Exit::bad_data, "a blending index names dataset ", dataset, " of ", taken.size());
    ++taken[static_cast<std::size_t>(dataset)];
  }
  for (std::size_t d = 0; d < taken.size(); ++d)
    if (taken[d] > datasets_[d].size())
      fail(Exit::bad_config, datasets_[d].data().name(), ": the blend takes ", taken[d],
           " samples of it, it has ", datasets_[d].size());
}

template <class Dataset>
std::int64_t Blended<Dataset>::size() const {
  return dataset_index_.empty() ? datasets_.front().size() : std::ssize(dataset_index_);
}

template <class Dataset>
typename Blended<Dataset>::Place Blended<Dataset>::place(std::int64_t k) const {
  assert(0 <= k && k < size());
  if (dataset_index_.empty()) return {0, k};
  const auto at = static_cast<std::size_t>(k);
  return {static_cast<std::size_t>(dataset_index_[at]), sample_index_[at]};
}

template class Blended<GptDataset>;
template class Blended<BertDataset>;
template class Blended<T5Dataset>;
template class Blended<IctDataset>;

}  // namespace mt
