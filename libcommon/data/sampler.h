// SingleSampler: which samples a data-parallel rank takes, Megatron-LM's "single" order
// (core_v0.12.1, megatron/legacy/data/data_samplers.py).  Sample 0, 1, 2, ... in order: with m
// samples per micro-batch, P ranks and c samples consumed so far, rank r takes [c + r m, c + (r +
// 1) m), then c grows by m P.  What is left short of m P is dropped.  A resumed run needs c alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "data/split.h"

namespace mt {

struct SamplerOptions {
  std::int64_t total = 0;     // samples in the dataset
  std::int64_t consumed = 0;  // by all ranks, over the whole run
  std::int64_t micro_batch_size = 1;
  int data_parallel_size = 1, data_parallel_rank = 0;
};

class SingleSampler {
 public:
  explicit SingleSampler(const SamplerOptions& options) : options_(options) {
    if (options.micro_batch_size < 1 || options.data_parallel_size < 1 ||
        options.data_parallel_rank < 0 || options.data_parallel_rank >= options.data_parallel_size)
      fail(Exit::usage, "micro-batches of ", options.micro_batch_size, " on rank ",
           options.data_parallel_rank, " of ", options.data_parallel_size);
    if (options.consumed < 0 || options.consumed >= options.total)
      fail(Exit::bad_config, "no samples left to consume: ", options.consumed, " of ",
           options.total, " are consumed");
  }

  // This rank's samples of the next micro-batch; absent when fewer than one for every rank are
  // left.
  std::optional<ItemRange> next() {
    const std::int64_t m = options_.micro_batch_size, all = m * options_.data_parallel_size;
    if (options_.total - options_.consumed < all) return std::nullopt;
    const std::int64_t begin = options_.consumed + options_.data_parallel_rank * m;
    options_.consumed += all;
    return ItemRange{begin, begin + m};
  }

  std::int64_t consumed() const { return options_.consumed; }

 private:
  SamplerOptions options_;
};

}  // namespace mt
