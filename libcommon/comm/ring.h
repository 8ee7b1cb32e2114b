// Ring: messages from each rank of a group to the one `step` further, round and round.  Each pair
// of neighbours has a group of its own, so that no message waits for one between others: with
// communicators whose messages leave and arrive one after another (NCCL's), ranks that all send
// before they receive would wait for ever.
#pragma once

#include <memory>

#include "comm/group.h"

namespace mt {

class Ring {
 public:
  // Every rank of the group, which must outlive this, calls it in its turn among the collectives.
  // step: 1 or -1.
  Ring(Group& group, int step);
  ~Ring();  // every rank too: NCCL's ranks part together
  Ring(const Ring&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }

  [[nodiscard]] Pending send(ConstTensor t) { return ahead_->send(t, 1); }
  [[nodiscard]] Pending receive(Tensor t) { return behind_->receive(t, 0); }

 private:
  int sending_turn(int place) const;

  int rank_, size_, place_;
  std::unique_ptr<Group> ahead_, behind_;  // {this rank, the next}, {the one before, this rank}
};

}  // namespace mt
