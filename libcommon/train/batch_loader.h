// BatchLoader: the samples of one global batch, divided among the ranks as Megatron's sampler does:
// with m samples to a micro-batch and P ranks, rank r's micro-batch i is samples
// first + (i P + r) m, … of that many.
#pragma once

#include <array>

#include "comm/world.h"
#include "train/executor.h"
#include "train/train_options.h"

namespace mt {

class BatchLoader {
 public:
  // The weights of rows are such that the gradients of so many micro-batches add up to their mean,
  // or with --calculate-per-token-loss to the sum over their tokens, times `loss_scale`.
  BatchLoader(const TrainOptions& options, const SampleSet& samples, std::int64_t first,
              int micro_batches, const Group& ranks, double loss_scale = 1)
      : samples_(samples),
        first_(first + ranks.rank() * options.micro_batch_size),
        size_(options.micro_batch_size),
        stride_(ranks.size() * options.micro_batch_size),
        micro_batches_(micro_batches),
        per_token_(options.calculate_per_token_loss),
        loss_scale_(loss_scale) {}

  // Fills this rank's `micro_batch` and returns the number of its first sample.  Exit::bad_config
  // where there are not so many samples.
  std::int64_t load(int micro_batch, const Batch& batch);

  double tokens() const;  // that count, of the micro-batches loaded so far

 private:
  const SampleSet& samples_;
  std::int64_t first_, size_, stride_;
  int micro_batches_;
  bool per_token_;
  double loss_scale_;
  std::vector<double> tokens_;  // of each micro-batch
};

// The losses and tokens of a step or an evaluation over all ranks, on each: every rank gives its
// own, of which the pipeline's last have the losses.
std::array<double, 2> sum_losses(const World& world, double loss, double tokens);

}  // namespace mt
