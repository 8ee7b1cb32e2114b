// kernels/cache_place.h: where a cache has a token's row: in slots of `capacity` rows each, of
// which a sequence has `runs` one behind the other.
#pragma once

#include <cstdint>

namespace mt {
// Returns which of all slots' rows is that of a sequence's token at a position.  slots: [sequences,
// runs], or null: the i-th sequence has the i-th.  Positions of 32 bits are divided as such.
template <class Position>
constexpr std::int64_t row_in_cache(const std::int32_t* slots, std::int64_t runs,
                                    std::int64_t capacity, std::int64_t sequence,
                                    Position position) {
  const Position run =
      slots != nullptr && runs > 1 ? position / static_cast<Position>(capacity) : 0;
  const std::int64_t slot = slots != nullptr ? slots[sequence * runs + run] : sequence;
  return (slot - run) * capacity + position;
}
}  // namespace mt
