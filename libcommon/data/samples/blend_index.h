// BlendIndex: for each sample of several datasets blended (blend.h) which dataset it is of, and
// which sample of that (Megatron-LM core_v0.12.1, megatron/core/datasets/blended_dataset.py).
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/samples/blend.h"
#include "data/samples/index_cache.h"

namespace mt {

// BlendPlan: how many samples a set has, and how many each of the token files gives.
struct BlendPlan {
  bool alone = false;                                  // there is one, and no index
  std::vector<double> weights = {};                    // above 0; empty: by the datasets' sizes
  std::optional<std::int64_t> samples = {};            // in all; absent: every sample once
  std::vector<std::optional<std::int64_t>> each = {};  // to be made at least; absent: one epoch
};

// The plan of a set of so many samples; absent: all there are, once, where there are no weights.
// One file is alone, unless it has a weight and counts_weight.
BlendPlan plan_blend(const Blend& blend, std::optional<std::int64_t> samples,
                     bool counts_weight = true);

class BlendIndex {
 public:
  struct Dataset {
    std::string name;  // for errors
    std::int64_t size = 0;
  };
  // Where there are no weights, there are no more samples than the datasets have.  Throws
  // Exit::bad_config where a dataset has fewer samples than its share.
  BlendIndex(const std::vector<Dataset>& datasets, const BlendPlan& plan,
             const IndexCache& cache = {});

  std::int64_t size() const { return size_; }

  struct Place {
    std::size_t dataset = 0;
    std::int64_t sample = 0;  // of that dataset
    bool operator==(const Place&) const = default;
  };
  Place place(std::int64_t k) const;  // 0 <= k < size()

  bool made() const { return arrays_.made(); }  // see IndexArrays

  // Each sample's dataset, as upstream stores it; empty for one dataset alone.
  std::span<const std::int16_t> dataset_index() const { return dataset_index_; }

 private:
  void check_shares(const std::vector<Dataset>& datasets) const;

  std::int64_t size_ = 0;
  IndexArrays arrays_;
  std::span<const std::int16_t> dataset_index_;
  std::span<const std::int64_t> sample_index_;
};

}  // namespace mt
