#include "data/corpus/min_hash.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "data/corpus/words.h"

namespace mt {
namespace {

constexpr std::size_t kShingleWords = 5;
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

std::uint64_t band_key(const MinHash& sketch, std::size_t band, std::size_t rows) {
  std::uint64_t key = band;
  for (std::size_t i = 0; i < rows; ++i) key = mixed(key ^ sketch[band * rows + i]);
  return key;
}

}  // namespace

MinHash min_hash(std::span<const std::uint64_t> words) {
  MinHash bins;
  bins.fill(kEmpty);
  const std::size_t length = std::min(kShingleWords, words.size());
  for (std::size_t i = 0; i + length <= words.size(); ++i) {
    const std::uint64_t hash = hash_of(words.subspan(i, length));
    std::uint32_t& bin = bins[hash % kMinHashBins];
    bin = std::min(bin, static_cast<std::uint32_t>(hash >> 32) & (kEmpty - 1));
  }
  MinHash filled = bins;
  for (std::size_t i = 0; i < kMinHashBins; ++i)
    for (std::size_t away = 1; away < kMinHashBins && filled[i] == kEmpty; ++away)
      if (const std::uint32_t other = bins[(i + away) % kMinHashBins]; other != kEmpty)
        filled[i] = static_cast<std::uint32_t>(mixed(other ^ (away << 32)));
  return filled;
}

double similarity(const MinHash& a, const MinHash& b) {
  std::uint32_t equal = 0;  // as wide as a bin, for the compiler's vectors
  for (std::size_t i = 0; i < kMinHashBins; ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / kMinHashBins;
}

bool MinHashIndex::has_similar(const MinHash& sketch, double threshold) {
  ++searches_;
  for (std::size_t band = 0; band < kBands; ++band) {
    const auto last = bands_[band].find(band_key(sketch, band, kMinHashBins / kBands));
    std::uint32_t number = last == bands_[band].end() ? kNone : last->second;
    for (int n = 0; n < kMostCompared && number != kNone; ++n) {
      Kept& kept = kept_[number];
      if (kept.search != searches_ && similarity(sketch, kept.sketch) >= threshold) return true;
      kept.search = searches_;
      number = kept.earlier[band];
    }
  }
  return false;
}

void MinHashIndex::add(const MinHash& sketch) {
  const auto number = static_cast<std::uint32_t>(kept_.size());
  Kept& kept = kept_.emplace_back();
  kept.sketch = sketch;
  for (std::size_t band = 0; band < kBands; ++band) {
    const auto [last, added] =
        bands_[band].try_emplace(band_key(sketch, band, kMinHashBins / kBands), number);
    kept.earlier[band] = added ? kNone : std::exchange(last->second, number);
  }
}

}  // namespace mt
