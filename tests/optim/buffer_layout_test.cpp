// Where parameters lie and whose part is which, against the golden layout of Megatron's rules.
#include "optim/buffer_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace mt {
namespace {

// In the order of registration: emb, w1, b1, w2, b2, out.
constexpr std::int64_t kCounts[] = {640, 300, 30, 500, 10, 640};
using Ranges = std::vector<OwnedRange>;

TEST(BufferLayout, GoldenBuckets) {
  const BufferLayout layout = make_layout({.counts = kCounts, .ranks = 4, .bucket_size = 1000});
  EXPECT_EQ(layout.starts, (std::vector<std::int64_t>{1664, 1344, 1280, 704, 640, 0}));
  EXPECT_EQ(layout.buckets, (std::vector<Bucket>{{0, 1280}, {1280, 2304}}));
  EXPECT_EQ(layout.buckets[0].slice(4), 320);
  EXPECT_EQ(layout.buckets[1].slice(4), 256);
  EXPECT_EQ(owned_ranges(layout, kCounts, 1, 4),
            (Ranges{{0, 0, 128}, {1, 192, 300}, {5, 320, 640}}));
  EXPECT_EQ(owned_ranges(layout, kCounts, 2, 4), (Ranges{{0, 128, 384}, {3, 0, 256}, {4, 0, 10}}));
}

TEST(BufferLayout, GoldenSingleBucket) {
  const BufferLayout layout = make_layout({.counts = kCounts, .ranks = 4});
  EXPECT_EQ(layout.starts, (std::vector<std::int64_t>{1600, 1280, 1216, 704, 640, 0}));
  EXPECT_EQ(layout.buckets, (std::vector<Bucket>{{0, 2304}}));
  EXPECT_EQ(layout.size(), 2304);
}

TEST(BufferLayout, GoldenBucketSizes) {
  EXPECT_EQ(default_bucket_size(8), 40'000'000);
  EXPECT_EQ(default_bucket_size(64), 64'000'000);
}

TEST(BufferLayout, WiderBucketsForBandwidth) {
  const BufferLayout layout = make_layout({.counts = kCounts, .ranks = 3, .high_bandwidth = true});
  EXPECT_EQ(layout.size(), 3 * 65536);
}

// A parameter that another pipeline stage has too lies alone, so that the same rank owns the same
// part of it on both, whatever else they have.
TEST(BufferLayout, SharedParameterLiesAlone) {
  const BufferLayout first = make_layout({.counts = kCounts, .ranks = 4, .shared = {0}});
  EXPECT_EQ(first.starts, (std::vector<std::int64_t>{1664, 1280, 1216, 704, 640, 0}));
  EXPECT_EQ(first.buckets, (std::vector<Bucket>{{0, 1664}, {1664, 2304}}));
  const std::vector<std::int64_t> of_last{100, 640};
  const BufferLayout last = make_layout({.counts = of_last, .ranks = 4, .shared = {1}});
  EXPECT_EQ(last.buckets, (std::vector<Bucket>{{0, 640}, {640, 768}}));
  const auto part_of = [](const std::vector<OwnedRange>& owned, std::size_t param) {
    const auto found = std::ranges::find(owned, param, &OwnedRange::param);
    return std::pair(found->begin, found->end);
  };
  const BufferLayout whole_first = make_whole_layout(kCounts, 4, std::vector<std::size_t>{0}),
                     whole_last = make_whole_layout(of_last, 4, std::vector<std::size_t>{1});
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(part_of(owned_ranges(first, kCounts, rank, 4), 0),
              part_of(owned_ranges(last, of_last, rank, 4), 1));
  EXPECT_EQ(whole_first.starts[0], 0);
  EXPECT_EQ(whole_last.starts[1], 0);
}

// Every element of every parameter belongs to exactly one rank.
void expect_partition(const BufferLayout& layout, std::span<const std::int64_t> counts, int ranks) {
  std::vector<std::int64_t> next(counts.size(), 0);
  for (int rank = 0; rank < ranks; ++rank)
    for (const OwnedRange& range : owned_ranges(layout, counts, rank, ranks)) {
      EXPECT_EQ(range.begin, next[range.param]);
      next[range.param] = range.end;
    }
  for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(next[i], counts[i]);
}

TEST(BufferLayout, EveryElementHasOneOwner) {
  const std::vector<std::int64_t> counts{7, 4096, 1, 640, 333, 64, 128, 5000};
  for (const int ranks : {1, 2, 3, 4, 7, 16})
    for (const std::int64_t bucket : {1, 100, 700, 4000, 1 << 20}) {
      const BufferLayout layout =
          make_layout({.counts = counts, .ranks = ranks, .bucket_size = bucket});
      expect_partition(layout, counts, ranks);
      for (const Bucket& b : layout.buckets) EXPECT_EQ(b.slice(ranks) * ranks % 128, 0);
    }
}

// What a rank owns of each parameter, wherever it begins there.
std::vector<std::pair<std::size_t, std::int64_t>> amounts(const std::vector<OwnedRange>& owned) {
  std::vector<std::pair<std::size_t, std::int64_t>> all;
  for (const OwnedRange& range : owned) all.emplace_back(range.param, range.end - range.begin);
  return all;
}

TEST(BufferLayout, FewRanksStandForAll) {
  const std::vector<std::int64_t> counts{7, 4096, 1, 640, 333, 64, 128, 50000};
  for (const int ranks : {1, 2, 3, 7, 64, 1000})
    for (const std::int64_t bucket : {100, 700, 4000, 1 << 20})
      for (const bool whole : {false, true}) {
        const BufferLayout layout =
            whole ? make_whole_layout(counts, ranks)
                  : make_layout({.counts = counts, .ranks = ranks, .bucket_size = bucket});
        std::set<std::vector<std::pair<std::size_t, std::int64_t>>> of_some;
        const std::vector<int> some = ranks_that_differ(layout, counts, ranks);
        EXPECT_LE(some.size(), 4 * counts.size());
        for (const int rank : some)
          of_some.insert(amounts(owned_ranges(layout, counts, rank, ranks)));
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_TRUE(of_some.contains(amounts(owned_ranges(layout, counts, rank, ranks))))
              << rank << " of " << ranks << " with buckets of " << bucket;
      }
}

TEST(BufferLayout, WholeParameters) {
  const std::vector<std::int64_t> counts{700, 64, 300, 300, 10, 600};
  for (const int ranks : {1, 2, 3, 8}) {
    const BufferLayout layout = make_whole_layout(counts, ranks);
    std::map<std::size_t, int> owners;
    for (int rank = 0; rank < ranks; ++rank)
      for (const OwnedRange& range : owned_ranges(layout, counts, rank, ranks)) {
        EXPECT_EQ(range.begin, 0);
        EXPECT_EQ(range.end, counts[range.param]);
        EXPECT_TRUE(owners.emplace(range.param, rank).second);
      }
    EXPECT_EQ(owners.size(), counts.size());
  }
  // The largest first, to who has least: 700; 600; 300 to the second; 300 to the first; ...
  EXPECT_EQ(make_whole_layout(counts, 2).size(), 2 * (704 + 320 + 64));
}

}  // namespace
}  // namespace mt
