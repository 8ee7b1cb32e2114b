// PairMap: from pairs of 32-bit symbols to a 32-bit value; a flat hash table with linear probing,
// at most half full.  find() may be called from several threads at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt {

class PairMap {
 public:
  static constexpr std::uint32_t kNone =
      0xFFFFFFFF;  // the value of an absent pair; cannot be stored

  PairMap() : slots_(std::size_t{1} << 4) {}

  std::uint32_t find(std::uint32_t left, std::uint32_t right) const {
    return slots_[slot_of(key_of(left, right))].value;
  }

  void reserve(std::size_t pairs) {
    if (2 * pairs > slots_.size()) resize(std::bit_ceil(2 * pairs));
  }

  // The value of the pair, which is kNone for a new one and must then be set.  Valid until the next
  // call.
  std::uint32_t& at(std::uint32_t left, std::uint32_t right) {
    reserve(used_ + 1);
    Slot& slot = slots_[slot_of(key_of(left, right))];
    if (slot.value == kNone) {
      slot.key = key_of(left, right);
      ++used_;
    }
    return slot.value;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t value = kNone;
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }

  // The slot that holds the key, or the free one where it belongs.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t i = (key * 0x9E3779B97F4A7C15u) >> shift_;  // 2^64 / golden ratio
    while (slots_[i].value != kNone && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  void resize(std::size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(slots);
    for (const Slot& slot : old)
      if (slot.value != kNone) slots_[slot_of(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  int shift_ = 60;  // 64 - log2(slots)
};

}  // namespace mt
