// MergeTable: from pairs of symbols to the number of their merge.  A pair lies in one of two slots
// (cuckoo hashing: Pagh, Rodler 2004), so that find() reads both and needs no branch, which nobody
// could predict.  find() may be called from several threads at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt {

class MergeTable {
 public:
  using Number = std::uint32_t;  // of symbols and merges, all below kNone
  static constexpr Number kNone = (1u << 21) - 1;

  explicit MergeTable(std::size_t merges = 0);  // room for so many

  Number find(Number left, Number right) const {
    const Slot key = key_of(left, right);
    const Slot a = slots_[first(key)] - key, b = slots_[second(key)] - key;
    return static_cast<Number>(std::min(std::min(a, b), Slot{kNone}));  // other keys: larger
  }

  void add(Number left, Number right, Number merge);  // a pair that is not there

 private:
  using Slot = std::uint64_t;  // left, right and merge, 21 bits each
  static constexpr Slot kFree = ~Slot{0};

  static Slot key_of(Number left, Number right) { return Slot{left} << 42 | Slot{right} << 21; }
  std::size_t first(Slot key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  std::size_t second(Slot key) const { return (key * 0xC2B2AE3D27D4EB4Fu) >> shift_; }
  void insert(Slot slot);
  void grow();

  std::vector<Slot> slots_;
  int shift_;  // 64 - log2(slots)
};

}  // namespace mt
