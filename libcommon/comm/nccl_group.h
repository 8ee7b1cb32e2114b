// Ranks that are processes, each with a GPU, over NVIDIA's NCCL (DESIGN D6, D7).  Its library is
// opened by the first group.
#pragma once

#include <memory>
#include <string>

#include "comm/group.h"
#include "comm/rendezvous.h"

namespace mt {

// All ranks that have met.  Collectives are queued behind what is in `compute`, the queue of this
// rank's GPU, and run beside what follows there; to wait for one is to make the queue wait.  Of
// host tensors, which travel through the GPU, the host waits.  Sums are of an order of NCCL's
// choice, the same in each run on the same machines; within a host, copy engines move what lies in
// memory that the ranks reach, and sums of little are one kernel (comm/peer_copies.h).
// Exit::unavailable without NCCL, and where two ranks have the same GPU, unless
// NCCL_MULTI_RANK_GPU_ENABLE=1 allows it.
//
// A GPU that waits for another's part waits for ever if that does not come: `ranks` is told how far
// this one has come, and fails when one has waited until its timeout.
std::unique_ptr<Group> make_nccl_group(Rendezvous& ranks, Stream& compute);

// What --version says of NCCL: what this was built with, and what the first group would open.
std::string nccl_version();

}  // namespace mt
