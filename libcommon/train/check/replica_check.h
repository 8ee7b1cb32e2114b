// ReplicaCheck: whether ranks that have the same weights have the same bits of them
// (--check-weight-hash-across-dp-replicas-interval, as check_param_hashes_across_dp_replicas of
// Megatron-LM core_v0.12.1): those of data-parallel ranks, of experts the ranks with the same
// experts; and, of weights that tensor-parallel ranks each have whole, these ranks.
#pragma once

#include <cstdint>

#include "comm/world.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

class ReplicaCheck {
 public:
  ReplicaCheck(const ParamTable& table, const World& world, Stream& stream)
      : table_(table), world_(world), stream_(stream) {}

  // A collective of all ranks, while all have their newest values: the first that finds a
  // difference throws Exit::difference and names the weight and two ranks, and the others
  // Exit::peer_failed.
  void check(std::int64_t iteration) const;

 private:
  std::string difference(Group& ranks, Copies copies, bool whole_alone) const;

  const ParamTable& table_;
  const World& world_;
  Stream& stream_;
};

}  // namespace mt
