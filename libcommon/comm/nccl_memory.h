// NcclMemory: what NCCL takes of a GPU's memory for the communicators of a rank.
//
// Constants of NCCL 2.28.3, measured by cudaMemGetInfo between two H200 of one host: before and
// after a communicator is made, its first collective, and its first message, for 1 to 32 channels
// and for the children of others; they give back every figure within 8 MiB.  Of more ranks, of
// other links and between hosts NCCL may choose otherwise.
#pragma once

#include <cstddef>
#include <deque>

#include "comm/group.h"

namespace mt {

// Channels that a communicator may have, each a block of the GPU beside what computes; 0: as many
// as NCCL likes, which on H200 are 24 for collectives and 32 for messages.
constexpr int most_channels(Carries carries) {
  return carries == Carries::numbers ? 1 : carries == Carries::messages ? 8 : 0;
}

class NcclMemory {
 public:
  static constexpr int kMeasuredRanks = 2;

  struct Communicator {
    Carries carries = Carries::tensors;
    bool collectives = false, messages = false;  // it has carried some

    std::size_t bytes() const;
  };
  // Stays where it is.
  Communicator& add(Carries carries) {
    return communicators_.emplace_back(Communicator{.carries = carries,
                                                    .collectives = carries == Carries::numbers,
                                                    .messages = carries == Carries::messages});
  }
  std::size_t bytes() const;  // of all, and what the first of each kind brings

 private:
  std::deque<Communicator> communicators_;
};

}  // namespace mt
