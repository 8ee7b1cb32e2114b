// Splits and sizes: which part of a token file is for training, validation and test, and how many
// samples each must give.  Rules: Megatron-LM core_v0.12.1,
// blended_megatron_dataset_{config,builder}.py and megatron/training/training.py, to the last bit
// of the sums.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/files/item_range.h"

namespace mt {

enum class Split { train, valid, test };
inline constexpr int kSplits = 3;

// numpy.sum of f64: eight partial sums per run of up to 128, pairwise above.
double numpy_sum(std::span<const double> values);

// Each value over numpy_sum of all.
std::vector<double> normalized(std::span<const double> weights);

// The ranges of train, valid and test for a text such as "969, 30, 1" over `count` items.  Absent:
// the split has no share; present it may still be empty.  Throws Exit::usage for more than three
// numbers, for none above 0, and for signs and letters (which upstream drops without a word), that
// begins with `option`.
std::array<std::optional<ItemRange>, kSplits> split_ranges(const std::string& option,
                                                           const std::string& text,
                                                           std::int64_t count);

struct TrainingLength {
  std::int64_t train_samples = 0;  // 0: train_iters * global_batch_size
  std::int64_t train_iters = 0, eval_iters = 0, eval_interval = 1, global_batch_size = 1;
  bool skip_train = false;           // one evaluation, and nothing to train on
  bool full_validation = false;      // valid gives all it has, once
  std::int64_t eval_batch_size = 0;  // 0: global_batch_size
};

// Samples that train, valid and test must give; absent: all, once.  Throws Exit::usage where they
// exceed 2^63.
std::array<std::optional<std::int64_t>, kSplits> target_samples(const TrainingLength& length);

}  // namespace mt
