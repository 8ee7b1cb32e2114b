// Sums of small arrays over GPUs that reach one another's memory, in one step: each GPU puts its
// own into its mailbox, tells the others and waits for them, and reads all mailboxes.
//   t[i] = t_0[i] + t_1[i] + …       or the largest of them;  t_r: [count] of rank r
// Ranks are added in this order, so that all have the same bits.  T: float, double, bf16, fp16,
// int32; sums of 16 bits in f32.  Only on GPUs.
//
// Sums of large ones whose addends were brought to one GPU, which is one pass over them:
//   y[i] = (x_0[i] + x_1[i]) + …     each sum rounded to T;  y may be one of them;  T: float, bf16,
//   fp16
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt::cuda {

// In each rank's memory, zeros before the first turn.  The halves of the data take turns: who
// begins the turn after the next has seen that all others have ended the one between.
struct PeerMailbox {
  static constexpr int kRanks = 16, kBlocks = 16;
  static constexpr std::size_t kBytes = 256 << 10;
  std::uint32_t turns[kBlocks];            // that each block has taken
  std::uint32_t arrived[kBlocks][kRanks];  // written by the others: turns whose data is there
  alignas(16) std::byte data[2][kBytes];
};

struct PeerMailboxes {
  PeerMailbox* of[PeerMailbox::kRanks];
  int rank, ranks;
};

// count sizeof(T) <= kBytes.
template <class T>
void peer_reduce(T* t, std::int64_t count, bool largest, const PeerMailboxes& boxes,
                 cudaStream_t stream);

template <class T>
struct Addends {
  const T* of[PeerMailbox::kRanks];
  int ranks;
};

template <class T>
void sum_of_ranks(T* y, const Addends<T>& x, std::int64_t count, cudaStream_t stream);

}  // namespace mt::cuda
