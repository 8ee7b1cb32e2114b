// IdBuffer: ids on their way to the end of a vector, to which they go in large parts: an id at a
// time would check the vector's size and set its memory to zero first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/piece_cache.h"

namespace mt {

class IdBuffer {
 public:
  explicit IdBuffer(std::vector<std::int32_t>& ids) : ids_(ids) {}

  void put(std::int32_t id) {
    if (count_ == out_.size()) flush();
    out_[count_++] = id;
  }
  void put(const PieceCache::Entry& entry) {
    if (count_ + PieceCache::kMaxIds > out_.size()) flush();
    const std::int32_t count = entry.count;
    std::copy_n(entry.ids.begin(), kMostOften,
                out_.begin() + count_);  // more than there are: no loop
    if (count > kMostOften) std::ranges::copy(entry.ids, out_.begin() + count_);
    count_ += count;
  }
  void flush() {  // also at the end
    ids_.insert(ids_.end(), out_.begin(), out_.begin() + count_);
    count_ = 0;
  }

 private:
  static constexpr std::int32_t kMostOften = 4;  // a piece has at most so many ids

  std::vector<std::int32_t>& ids_;
  std::array<std::int32_t, 1024> out_;
  std::size_t count_ = 0;
};

}  // namespace mt
