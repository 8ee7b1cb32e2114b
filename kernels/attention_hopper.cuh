// What the forward and the backward of attention on Hopper share: how tensors are cut into tiles,
// and in which order blocks take them.
#pragma once

#include <cstdint>

#include "kernels/attention_cuda.cuh"
#include "kernels/hopper.cuh"

namespace mt::cuda {

// Of a [sequences, length, heads, head_dim] tensor, boxes of `rows` tokens by 64 channels of one
// head; what a box has outside the tensor reads as 0 and is not written.  stride: tokens from one
// sequence to the next.
CUtensorMap tile_map(const bf16* tensor, std::int64_t sequences, std::int64_t length,
                     std::int64_t stride, std::int64_t heads, std::int64_t head_dim, int rows);

// A stage of a ring of `kStages` and the parity of its current round.
template <int kStages>
struct Ring {
  int stage = 0, parity;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// Tiles in the order in which blocks take them.  Heads are taken some at a time, so that what they
// share stays in L2 while all of them advance together through their tiles.
struct TileOrder {
  int per_head, heads, heads_at_a_time;
  struct Place {
    int tile, head;
  };
  __host__ __device__ int size() const { return per_head * heads; }
  __device__ Place at(int index) const {
    const int section = index / (heads_at_a_time * per_head);
    const int in_section = min(heads_at_a_time, heads - section * heads_at_a_time);
    const int rest = index - section * heads_at_a_time * per_head;
    return {rest / in_section, section * heads_at_a_time + rest % in_section};
  }
};

}  // namespace mt::cuda
