// MinHash: a sketch of a set, of which two tell how alike the sets are (Broder, "On the resemblance
// and containment of documents", 1997), by one permutation (Li, Owen and Zhang, NIPS 2012) whose
// empty bins take their neighbours' values (Shrivastava and Li, ICML 2014).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace mt {

inline constexpr std::size_t kMinHashBins = 128;
using MinHash = std::array<std::uint32_t, kMinHashBins>;

// The sketch of the runs of five words in a text (all of it, if it has fewer), given its words'
// hashes.
MinHash min_hash(std::span<const std::uint64_t> words);

// An estimate of the sets' Jaccard similarity, 0 to 1.
double similarity(const MinHash& a, const MinHash& b);

// Sketches to find similar ones among, by locality-sensitive hashing: 16 bands of 8 bins, so that
// sets of similarity 0.7 meet with a chance of about 0.6, of 0.8 with 0.95, of 0.9 with 0.9999. All
// that share a band are compared, the kMostCompared last ones of it: short texts with a run of
// words in common share bands without being alike, and there may be any number of them.  A kept
// sketch takes about 1 KiB.  Not thread-safe.
class MinHashIndex {
 public:
  static constexpr int kMostCompared = 1000;

  bool has_similar(const MinHash& sketch, double threshold);
  void add(const MinHash& sketch);

 private:
  static constexpr std::size_t kBands = 16;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Kept {
    MinHash sketch;
    std::array<std::uint32_t, kBands> earlier;  // the one before with the same band, or kNone
    std::uint32_t search = 0;                   // that has last compared it
  };
  std::uint32_t searches_ = 0;
  std::vector<Kept> kept_;
  std::array<std::unordered_map<std::uint64_t, std::uint32_t>, kBands> bands_;  // the last with it
};

}  // namespace mt
