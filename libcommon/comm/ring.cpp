#include "comm/ring.h"

namespace mt {

// In which turn a place in the ring and the next one make their group: every second one at a time,
// and of an odd number of ranks the last and the first by themselves.
int Ring::sending_turn(int place) const {
  return size_ % 2 == 1 && place == size_ - 1 ? 2 : place % 2;
}

Ring::Ring(Group& group, int step) : rank_(group.rank()), size_(group.size()) {
  const auto member = [&](int place) { return (place * step % size_ + size_) % size_; };
  place_ = member(rank_);  // as -1 is its own inverse
  if (size_ == 1) return;
  const int before = (place_ + size_ - 1) % size_;
  for (int turn = 0; turn < 2 + size_ % 2; ++turn) {
    if (sending_turn(place_) == turn)
      ahead_ = group.split({rank_, member(place_ + 1)}, Carries::messages);
    else if (sending_turn(before) == turn)
      behind_ = group.split({member(before), rank_}, Carries::messages);
    else
      static_cast<void>(group.split({rank_}, Carries::messages));
  }
}

// In the order of the turns.
Ring::~Ring() {
  if (size_ > 1 && sending_turn(place_) > sending_turn((place_ + size_ - 1) % size_))
    behind_.reset();
  ahead_.reset();
}

}  // namespace mt
