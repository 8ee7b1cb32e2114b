// PieceCounts: how often each piece, or word, occurs in texts; what vocabularies are trained on.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "text/string_map.h"

namespace mt {

class PieceCounts {
 public:
  void add(std::string_view piece, std::int64_t count = 1) {
    if (piece.size() > std::numeric_limits<std::uint32_t>::max())
      fail(Exit::bad_data, "a word of ", piece.size(), " bytes, expected less than 4 GiB");
    const auto known = counts_.find(piece);
    if (known != counts_.end()) {
      known->second += count;
    } else {
      counts_.emplace(piece, count);
      piece_bytes_ += piece.size();
    }
  }
  void merge(const PieceCounts& other) {
    for (const auto& [piece, count] : other.counts_) add(piece, count);
  }
  void clear() { *this = PieceCounts(); }

  std::size_t size() const { return counts_.size(); }
  bool empty() const { return counts_.empty(); }
  const auto* begin() const { return counts_.begin(); }
  const auto* end() const { return counts_.end(); }
  // About what they take of memory, when the map has just grown and has no room to spare.
  std::size_t memory() const { return size() * kBytesEach + 2 * piece_bytes_; }

 private:
  static constexpr std::size_t kBytesEach = 128;

  StringMap<std::int64_t> counts_;
  std::size_t piece_bytes_ = 0;
};

}  // namespace mt
