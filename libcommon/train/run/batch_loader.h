// BatchLoader: the samples of one global batch, divided among the ranks as Megatron's sampler does:
// with m samples to a micro-batch and P data-parallel ranks, rank r's micro-batch i is samples
// first + (i P + r) m, … of that many.  Ranks that share sequences take their chunks of each
// (nn/context_parallel.h); the others of one data-parallel rank read the same.
#pragma once

#include <array>

#include "comm/world.h"
#include "data/samples/batch_options.h"
#include "data/samples/train_data.h"
#include "kernels/update.h"
#include "train/run/task.h"

namespace mt {

class BatchLoader {
 public:
  // The weights of rows are such that the gradients of so many micro-batches add up to their mean,
  // or with --calculate-per-token-loss to the sum over their tokens.  dtype: of the computation.
  BatchLoader(const BatchOptions& options, DType dtype, const Task& task, const SampleSet& samples,
              std::int64_t first, int micro_batches, const World& world);

  // Fills this rank's `micro_batch` and returns the number of its first sample.  Exit::bad_config
  // where there are not so many samples.
  std::int64_t load(int micro_batch, const Fields& batch);

  // What a term's mean over the micro-batches loaded so far divides by: this rank's share of the
  // losses that count, or of the micro-batches that have some.
  double count(std::size_t term) const;

  // What a mean over a loaded micro-batch weighs in the sum of gradients, as that of its first term
  // does.
  double weight(int micro_batch) const { return weights_[static_cast<std::size_t>(micro_batch)]; }

 private:
  void take_chunks(const Fields& batch) const;
  void check_words(const Fields& batch, std::int64_t first) const;

  const Objective& objective_;
  const SampleSet& samples_;
  std::int64_t first_, size_, stride_;
  int micro_batches_;
  bool per_token_;
  std::vector<std::array<double, kMostLosses>> counts_;  // of each micro-batch, by terms
  std::vector<double> weights_;
  Group& context_;
  Buffer storage_;  // of whole sequences, where ranks share them
  Fields whole_;
  FieldSpecs shared_;        // what they take chunks of, or all
  std::int64_t tokens_ = 0;  // of a sequence
  std::int64_t words_ = 0;   // that the model has; and, where its tokenizer has more,
  FieldSpecs with_words_;    // what has words
};

// The LossSums of a step or an evaluation stand at the end of `sums`, f64, one a term: every stage
// of a pipeline gives what it has of them, the last one the counts, and gets the sums over all
// ranks. What stands before them becomes the sums over data_context().
void sum_losses(const World& world, Tensor sums, std::size_t terms);

}  // namespace mt
