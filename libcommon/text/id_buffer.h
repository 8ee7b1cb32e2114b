// IdBuffer: ids on their way to the end of a vector, to which they go in large parts: an id at a
// time would check the vector's size and set its memory to zero first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/bpe/piece_cache.h"

namespace mt {

class IdBuffer {
 public:
  explicit IdBuffer(std::vector<std::int32_t>& ids) : ids_(ids) {}

  void put(std::int32_t id) {
    if (count_ == out_.size()) flush();
    out_[count_++] = id;
  }
  void put(const PieceCache::Entry& entry) { wrote(write(entry, room(PieceCache::kMaxIds))); }

  // Adds many entries at once: room for so many ids, kMaxIds for each entry, is written to and then
  // said to be taken up to `end`.
  std::int32_t* room(std::size_t ids) {
    if (count_ + ids > out_.size()) flush();
    return out_.data() + count_;
  }
  void wrote(const std::int32_t* end) { count_ = static_cast<std::size_t>(end - out_.data()); }
  static std::int32_t* write(const PieceCache::Entry& entry, std::int32_t* to) {
    std::copy_n(entry.ids.begin(), kMostOften, to);  // more than there are: no loop
    if (entry.count > kMostOften) std::ranges::copy(entry.ids, to);
    return to + entry.count;
  }
  void flush() {  // also at the end
    ids_.insert(ids_.end(), out_.begin(), out_.begin() + count_);
    count_ = 0;
  }

 private:
  static constexpr std::int32_t kMostOften = 4;  // a piece has at most so many ids

  std::vector<std::int32_t>& ids_;
  std::array<std::int32_t, 4096> out_;
  std::size_t count_ = 0;
};

}  // namespace mt
