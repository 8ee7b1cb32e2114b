// BufferLayout: where parameters lie in the flat buffers of values and gradients when several ranks
// share the optimizer's work, and which part is whose (Megatron's param_and_grad_buffer).
//
// The buffer is a list of buckets, each cut into as many equal slices as there are ranks: rank r
// owns slice r of every bucket.  So gradients are reduced and scattered, and values gathered, in
// place.  All counts are of elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mt {

struct Bucket {
  std::int64_t begin = 0, end = 0;
  std::int64_t slice(int ranks) const { return (end - begin) / ranks; }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

struct BufferLayout {
  std::vector<std::int64_t> starts;  // of each parameter
  std::vector<Bucket> buckets;       // one after another, from 0
  std::vector<std::int64_t> filled;  // elements of each bucket before its padding
  std::int64_t size() const { return buckets.empty() ? 0 : buckets.back().end; }
  std::size_t bucket_at(std::int64_t element) const;  // the bucket with this element
};

// Megatron's layout for its distributed optimizer.  Parameters of `counts` elements are placed from
// the last to the first, each at a multiple of 64; a bucket is closed by the parameter that brings
// it to `bucket_size` (never, if that is empty) and padded to a multiple of lcm(ranks, 128), or
// lcm(ranks, 128, 65536) if `high_bandwidth` (Megatron's --ddp-pad-buckets-for-high-nccl-busbw).  A
// parameter may be cut among ranks.  A shared one has a bucket of its own, so that every stage's
// rank r owns the same part of it.  With `units`, the number of each parameter's, a bucket ends
// with its unit.
struct MegatronLayout {
  std::span<const std::int64_t> counts;
  int ranks = 1;
  std::optional<std::int64_t> bucket_size = {};
  bool high_bandwidth = false;
  std::vector<std::size_t> shared = {};  // parameters that other pipeline stages have too
  std::span<const int> units = {};
};
BufferLayout make_layout(const MegatronLayout& what);

// Megatron's default bucket size: max(40 million, 1 million for each data-parallel rank, those that
// share sequences counted once).
std::int64_t default_bucket_size(int data_ranks);

// Megatron's files leave the buckets' padding out.
struct UnpaddedLayout {
  std::vector<std::int64_t> starts;  // of each parameter
  std::int64_t size = 0;             // numel_unpadded
};
UnpaddedLayout without_padding(const BufferLayout& layout);

// One bucket in which no parameter is cut: each goes, the largest first, to the rank that has
// least; shared ones, before them, to rank 0.
BufferLayout make_whole_layout(std::span<const std::int64_t> counts, int ranks,
                               std::span<const std::size_t> shared = {});

// A rank's part of a parameter: elements [begin, end) of it.
struct OwnedRange {
  std::size_t param = 0;
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const OwnedRange&, const OwnedRange&) = default;
};
// In the parameters' order.
std::vector<OwnedRange> owned_ranges(const BufferLayout& layout,
                                     std::span<const std::int64_t> counts, int rank, int ranks);

// Ranks, in their order, such that every other owns as much of the same parameters as one of them:
// few, however many there are.
std::vector<int> ranks_that_differ(const BufferLayout& layout, std::span<const std::int64_t> counts,
                                   int ranks);

}  // namespace mt
