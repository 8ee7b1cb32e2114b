// BlendedDataset: the samples of one GPT dataset, or of several blended (blend.h; Megatron-LM
// core_v0.12.1, megatron/core/datasets/blended_dataset.py): for each sample a dataset, and which
// sample of that.  Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/gpt_dataset.h"

namespace mt {

class BlendedDataset {
 public:
  explicit BlendedDataset(GptDataset alone);

  // `weights`: one a dataset, above 0.  Without `samples` every sample of every dataset comes once,
  // and the weights must be the datasets' sizes.  Throws Exit::bad_config where a dataset has fewer
  // samples than its share.
  BlendedDataset(std::vector<GptDataset> datasets, std::vector<double> weights,
                 std::optional<std::int64_t> samples, const IndexCache& cache = {});

  std::int64_t size() const;
  std::int64_t seq_length() const { return datasets_.front().seq_length(); }
  const std::vector<GptDataset>& datasets() const { return datasets_; }

  struct Place {
    std::size_t dataset = 0;
    std::int64_t sample = 0;  // of that dataset
    bool operator==(const Place&) const = default;
  };
  Place place(std::int64_t k) const;  // 0 <= k < size()
  void get(std::int64_t k, const GptSample& sample) const;

  bool made() const { return arrays_.made(); }  // its own indexes, see IndexArrays

  // As upstream stores them; empty for one dataset alone.
  std::span<const std::int16_t> dataset_index() const { return dataset_index_; }
  std::span<const std::int64_t> dataset_sample_index() const { return sample_index_; }

 private:
  void check_shares() const;

  std::vector<GptDataset> datasets_;
  IndexArrays arrays_;
  std::span<const std::int16_t> dataset_index_;
  std::span<const std::int64_t> sample_index_;
};

}  // namespace mt
