// EpochSamples: samples in the order in which Megatron-LM's finetuning reads them (core_v0.12.1,
// tasks/finetune_utils.py, through PyTorch's DistributedSampler): each epoch has an order of its
// own, torch.randperm seeded with seed + epoch, made as long as ranks divide it by its own
// beginning, of which every step takes the next.  What is left behind the last whole step is not
// read, or, with keep_last, is a step that lacks some, whose samples are dealt out to the ranks.
// Which rank has which sample of a whole step is our own: so that dropout, which goes by the
// numbers of samples, is the same on any number of ranks.
//
// A run's sequence n is the (n mod choices)-th of sample n / choices, and those are numbered over
// all ranks as Sampler has them, so that a resumed run needs what was consumed alone.  Thread-safe.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "data/samples/samples.h"

namespace mt {

struct EpochOptions {
  std::int64_t samples = 0, choices = 1;
  std::int64_t micro_batch_size = 1;  // samples
  int ranks = 1, micro_batches = 1;   // of a step, on each rank
  std::uint64_t seed = 0;
  bool changes = true;  // else every epoch has the order of the first
  bool keep_last = false;

  std::int64_t steps() const;  // of an epoch
};

class EpochSamples final : public Samples {
 public:
  // `samples` has options.samples x options.choices sequences, and must outlive it.
  EpochSamples(const Samples& samples, const EpochOptions& options)
      : samples_(samples), options_(options) {}

  const std::string& name() const override { return samples_.name(); }
  std::int64_t size() const override { return std::int64_t{1} << 60; }  // it begins again and again
  const FieldSpecs& fields() const override { return samples_.fields(); }
  // What a micro-batch lacks is a sequence whose loss does not count.
  void get(std::int64_t n, const Fields& sequence) const override;
  std::vector<std::string> lines(std::int64_t n, const Tokenizer& tokenizer) const override;
  void write(std::int64_t n, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }

  // Which sequence of `samples` is read; absent: none.
  std::optional<std::int64_t> sequence(std::int64_t n) const;

 private:
  std::int64_t permuted(std::int64_t epoch, std::int64_t at) const;
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::uint32_t> order;
  };

  const Samples& samples_;
  EpochOptions options_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> epochs_;  // ranks may be on both sides of an epoch's end
};

}  // namespace mt
