#include "data/samples/blend_index.h"

#include <bit>
#include <cassert>
#include <limits>

#include "base/error.h"
#include "base/memory.h"
#include "data/samples/split.h"

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
  expect_memory(static_cast<std::uint64_t>(samples) * sizeof(order[0]),
                concat("the order of ", samples, " samples of a blend"));
  order.reserve(static_cast<std::size_t>(samples));
  blend_samples(weights, sizes, samples,
                [&](std::size_t dataset) { order.push_back(static_cast<std::int16_t>(dataset)); });
  writer.put_all(std::span<const std::int16_t>(order));
  writer.next_array();
  std::vector<std::int64_t> taken(weights.size());
  for (const std::int16_t dataset : order) writer.put(taken[static_cast<std::size_t>(dataset)]++);
}

}  // namespace

BlendPlan plan_blend(const Blend& blend, std::optional<std::int64_t> samples, bool counts_weight) {
  const std::size_t files = blend.prefixes.size();
  if (files == 1 && (blend.weights.empty() || !counts_weight))
    return {.alone = true, .samples = samples, .each = {samples}};
  BlendPlan plan{.samples = samples};
  plan.each.resize(files);
  if (blend.weights.empty()) return plan;
  assert(samples);
  plan.weights = normalized(blend.weights);
  plan.samples = 0;
  for (std::size_t d = 0; d < files; ++d) {
    plan.each[d] = blend_build_size(*samples, plan.weights[d]);
    *plan.samples += blend_target(*samples, plan.weights[d]);
  }
  return plan;
}

BlendIndex::BlendIndex(const std::vector<Dataset>& datasets, const BlendPlan& plan,
                       const IndexCache& cache)
    : size_(datasets.front().size) {
  if (plan.alone) return;
  if (datasets.size() >= std::numeric_limits<std::int16_t>::max())
    fail(Exit::usage, datasets.size(), " datasets in a blend, expected fewer than ",
         std::numeric_limits<std::int16_t>::max());
  std::vector<double> weights = plan.weights;
  std::vector<std::int64_t> sizes;
  std::int64_t all = 0;
  for (const Dataset& dataset : datasets) {
    if (plan.weights.empty()) weights.push_back(static_cast<double>(dataset.size));
    if (!plan.samples) sizes.push_back(dataset.size);
    all += dataset.size;
  }
  assert(weights.size() == datasets.size());
  for (std::size_t d = 0; d < weights.size(); ++d)
    if (!(weights[d] > 0))
      fail(Exit::bad_config, datasets[d].name, ": gives a blend ", weights[d],
           " samples, expected at least one");
  size_ = plan.samples.value_or(all);
  if (plan.weights.empty()) size_ = std::min(size_, all);
  if (plan.samples)
    weights = normalized(weights);
  else  // an exact sum, as long as it is below 2^53
    for (double& weight : weights) weight /= static_cast<double>(size_);

  IndexContent content;
  if (cache.kept()) content.text = text_of(weights, size_, !plan.samples);
  content.arrays = {{2, size_}, {8, size_}};
  content.make = [&](IndexWriter& writer) { put_blend(writer, weights, sizes, size_); };
  arrays_ = cache.get(content);
  dataset_index_ = arrays_.get<std::int16_t>(0);
  sample_index_ = arrays_.get<std::int64_t>(1);
  check_shares(datasets);
}

void BlendIndex::check_shares(const std::vector<Dataset>& datasets) const {
  std::vector<std::int64_t> taken(datasets.size());
  for (const std::int16_t dataset : dataset_index_) {
    if (dataset < 0 || static_cast<std::size_t>(dataset) >= taken.size())
      fail(Exit::bad_data, "a blending index names dataset ", dataset, " of ", taken.size());
    ++taken[static_cast<std::size_t>(dataset)];
  }
  for (std::size_t d = 0; d < taken.size(); ++d)
    if (taken[d] > datasets[d].size)
      fail(Exit::bad_config, datasets[d].name, ": the blend takes ", taken[d],
           " samples of it, it has ", datasets[d].size);
}

BlendIndex::Place BlendIndex::place(std::int64_t k) const {
  assert(0 <= k && k < size());
  if (dataset_index_.empty()) return {0, k};
  const auto at = static_cast<std::size_t>(k);
  return {static_cast<std::size_t>(dataset_index_[at]), sample_index_[at]};
}

}  // namespace mt
