// Sampler: which sample of a dataset the n-th of a run is (Megatron-LM core_v0.12.1,
// megatron/legacy/data/data_samplers.py).  Samples of a run are numbered from 0, over all ranks: of
// the micro-batches of m samples that P ranks read at a time, rank r has numbers [c + r m, c + (r +
// 1) m), where c, a multiple of m P, is what was consumed before.  So a resumed run needs c alone,
// and the size of the global batch plays no part.
//
//   single: number n is sample n.
//   cyclic: the dataset less its last (size mod m P) samples makes an epoch; within it
//     sharded: each rank owns a bucket of (size / (m P)) m neighbours, all read in one order
//     else:    the first (size / m) m samples in one order, dealt to the ranks in turn
//     where the order is torch.randperm seeded with the number of the epoch.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mt {

// What comes after the last sample in single order: an error, the first again, or padding.
enum class PastEnd { error, repeat, padding };

struct SamplerOptions {
  std::string type = "single";  // or "cyclic"
  bool data_sharding = true;
  std::int64_t micro_batch_size = 1;
  int data_parallel_size = 1;
  PastEnd past_end = PastEnd::error;
};

// torch.randperm(n) of a CPU generator seeded with `seed`; n < 214748364, from where on the order
// depends on torch's version.
std::vector<std::uint32_t> torch_permutation(std::int64_t n, std::uint64_t seed);

class Sampler {
 public:
  // `size`: of the dataset.  Throws Exit::bad_config where it is too small or too large.
  Sampler(std::int64_t size, const SamplerOptions& options);

  // The sample that number n of the run is; absent: padding.
  std::optional<std::int64_t> sample(std::int64_t number) const;

  // Throws Exit::bad_config where a run cannot go on after `consumed` samples.
  void check_consumed(std::int64_t consumed) const;

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::uint32_t> order;
  };
  std::int64_t permuted(std::int64_t epoch, std::int64_t at) const;

  std::int64_t size_;
  SamplerOptions options_;
  mutable std::mutex mutex_;
  mutable std::array<Epoch, 2> epochs_;  // ranks may be on both sides of an epoch's end
};

}  // namespace mt
