#include "optim/buffer_layout.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace mt {

static constexpr std::int64_t kAlignment = 64, kBucketAlignment = 128, kHighBandwidth = 1 << 16;

static std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t default_bucket_size(int data_ranks) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * data_ranks);
}

std::size_t BufferLayout::bucket_at(std::int64_t element) const {
  const auto found =
      std::ranges::find_if(buckets, [&](const Bucket& bucket) { return element < bucket.end; });
  return static_cast<std::size_t>(found - buckets.begin());
}

BufferLayout make_layout(const MegatronLayout& what) {
  const std::int64_t padding =
      std::lcm(std::int64_t{what.ranks}, what.high_bandwidth ? kHighBandwidth : kBucketAlignment);
  BufferLayout layout;
  layout.starts.resize(what.counts.size());
  std::int64_t begin = 0, end = 0;  // of the open bucket
  const auto close = [&] {
    const std::int64_t padded = round_up(end, padding);
    layout.buckets.push_back({begin, padded});
    layout.filled.push_back(end - begin);
    begin = end = padded;
  };
  for (std::size_t i = what.counts.size(); i-- > 0;) {
    const bool alone = std::ranges::find(what.shared, i) != what.shared.end();
    if (alone && end > begin) {  // where that one would begin is where Megatron ends the bucket
      end = round_up(end, kAlignment);
      if (end % what.ranks != 0) end = round_up(end, padding);
      close();
    }
    layout.starts[i] = round_up(end, kAlignment);
    end = layout.starts[i] + what.counts[i];
    const bool ends_unit = !what.units.empty() && i > 0 && what.units[i - 1] != what.units[i];
    if (alone || ends_unit || (what.bucket_size && end - begin >= *what.bucket_size)) close();
  }
  if (end > begin) close();
  return layout;
}

UnpaddedLayout without_padding(const BufferLayout& layout) {
  UnpaddedLayout unpadded{.starts = layout.starts};
  for (std::size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
    const auto [begin, end] = layout.buckets[bucket];
    for (std::size_t i = 0; i < layout.starts.size(); ++i)
      if (const std::int64_t start = layout.starts[i]; start >= begin && start < end)
        unpadded.starts[i] = unpadded.size + start - begin;
    unpadded.size += layout.filled[bucket];
  }
  return unpadded;
}

BufferLayout make_whole_layout(std::span<const std::int64_t> counts, int ranks,
                               std::span<const std::size_t> shared) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  const auto is_shared = [&](std::size_t i) {
    return std::ranges::find(shared, i) != shared.end();
  };
  std::ranges::stable_partition(order, is_shared);
  std::vector<std::int64_t> filled(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> owner(counts.size());
  BufferLayout layout;
  layout.starts.resize(counts.size());
  for (const std::size_t i : order) {
    const auto least = is_shared(i) ? filled.begin() : std::ranges::min_element(filled);
    owner[i] = static_cast<std::size_t>(least - filled.begin());
    layout.starts[i] = *least;
    *least += round_up(counts[i], kAlignment);
  }
  const std::int64_t slice = std::ranges::max(filled);
  for (std::size_t i = 0; i < counts.size(); ++i)
    layout.starts[i] += static_cast<std::int64_t>(owner[i]) * slice;
  layout.buckets = {{0, slice * ranks}};
  layout.filled = {slice * ranks};
  return layout;
}

std::vector<OwnedRange> owned_ranges(const BufferLayout& layout,
                                     std::span<const std::int64_t> counts, int rank, int ranks) {
  std::vector<OwnedRange> owned;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t start = layout.starts[i];
    const Bucket& bucket = layout.buckets[layout.bucket_at(start)];
    const std::int64_t slice = bucket.slice(ranks), from = bucket.begin + rank * slice;
    const std::int64_t begin = std::max(start, from),
                       end = std::min(start + counts[i], from + slice);
    if (begin < end) owned.push_back({i, begin - start, end - start});
  }
  return owned;
}

// The ranks in whose slices a parameter begins or ends, and the next after each: from there to the
// next of them every slice lies within the parameter, or the padding, that it lies within there.
std::vector<int> ranks_that_differ(const BufferLayout& layout, std::span<const std::int64_t> counts,
                                   int ranks) {
  std::set<int> found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t start = layout.starts[i];
    const Bucket& bucket = layout.buckets[layout.bucket_at(start)];
    for (const std::int64_t edge : {start, start + counts[i] - 1}) {
      const int rank = static_cast<int>((edge - bucket.begin) / bucket.slice(ranks));
      found.insert(rank);
      if (rank + 1 < ranks) found.insert(rank + 1);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace mt
