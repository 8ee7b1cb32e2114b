// Blended: the samples of one dataset, or of several of its kind blended (blend.h; Megatron-LM
// core_v0.12.1, megatron/core/datasets/blended_dataset.py): for each sample a dataset, and which
// sample of that.  Thread-safe.
//
// A kind of dataset (GptDataset, BertDataset, T5Dataset, IctDataset) has the type Sample of what
// get(k, sample) fills, size(), seq_length() and data().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/samples/blend.h"
#include "data/samples/gpt_dataset.h"

namespace mt {

template <class Dataset>
class Blended {
 public:
  explicit Blended(Dataset alone);

  // `weights`: one a dataset, above 0.  Without `samples` every sample of every dataset comes once,
  // and the weights must be the datasets' sizes.  Throws Exit::bad_config where a dataset has fewer
  // samples than its share.
  Blended(std::vector<Dataset> datasets, std::vector<double> weights,
          std::optional<std::int64_t> samples, const IndexCache& cache = {});

  std::int64_t size() const;
  std::int64_t seq_length() const { return datasets_.front().seq_length(); }
  const std::vector<Dataset>& datasets() const { return datasets_; }

  struct Place {
    std::size_t dataset = 0;
    std::int64_t sample = 0;  // of that dataset
    bool operator==(const Place&) const = default;
  };
  Place place(std::int64_t k) const;  // 0 <= k < size()
  auto get(std::int64_t k, const typename Dataset::Sample& sample) const {
    const Place at = place(k);
    return datasets_[at.dataset].get(at.sample, sample);
  }

  bool made() const { return arrays_.made(); }  // its own indexes, see IndexArrays

  // Both indexes as upstream stores them; empty for one dataset alone.
  std::span<const std::int16_t> dataset_index() const { return dataset_index_; }
  std::span<const std::int64_t> dataset_sample_index() const { return sample_index_; }

 private:
  void check_shares() const;

  std::vector<Dataset> datasets_;
  IndexArrays arrays_;
  std::span<const std::int16_t> dataset_index_;
  std::span<const std::int64_t> sample_index_;
};

using BlendedDataset = Blended<GptDataset>;

}  // namespace mt
