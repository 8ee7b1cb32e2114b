#include "text/bpe/merge_table.h"

#include <bit>

namespace mt {

static constexpr int kMostMoves = 100;  // of slots that make room for one

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(2 * merges + 64), kFree), shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(Number left, Number right, Number merge) {
  insert(key_of(left, right) | merge);
}

// What is in the way goes to its other place.
void MergeTable::insert(Slot slot) {
  std::size_t place = first(slot & ~Slot{kNone});
  for (int moves = 0; moves < kMostMoves; ++moves) {
    std::swap(slot, slots_[place]);
    if (slot == kFree) return;
    const Slot key = slot & ~Slot{kNone};
    place = place == first(key) ? second(key) : first(key);
  }
  grow();
  insert(slot);
}

void MergeTable::grow() {
  std::vector<Slot> old(2 * slots_.size(), kFree);
  old.swap(slots_);
  --shift_;
  for (const Slot slot : old)
    if (slot != kFree) insert(slot);
}

}  // namespace mt
