#include "comm/ring.h"

namespace mt {

// Neighbours i and i + 1 split off together with those at every second place; of an odd number of
// ranks the last and the first do so by themselves.
Ring::Ring(Group& group, int step) : rank_(group.rank()), size_(group.size()) {
  if (size_ == 1) return;
  const auto place = [&](int i) { return (i * step % size_ + size_) % size_; };  // i-th in the ring
  const int i = place(rank_);
  const auto turn_of = [&](int sender) {
    return size_ % 2 == 1 && sender == size_ - 1 ? 2 : sender % 2;
  };
  for (int turn = 0; turn < 2 + size_ % 2; ++turn) {
    const int before = (i + size_ - 1) % size_;
    if (turn_of(i) == turn)
      ahead_ = group.split({rank_, place(i + 1)});
    else if (turn_of(before) == turn)
      behind_ = group.split({place(before), rank_});
    else
      static_cast<void>(group.split({rank_}));
  }
}

}  // namespace mt
