// What the forward and the backward of attention on Hopper share: how tensors are cut into tiles,
// and in which order blocks take them.
#pragma once

#include <cstdint>

#include "kernels/attention_cuda.cuh"
#include "kernels/attention_keep.cuh"
#include "kernels/hopper.cuh"

namespace mt::cuda {

// A tensor whose element (sequence, token, group of heads, head of the group, channel) is at
//   (sequence stride + token) row + group spacing + head head_dim + channel
struct HeadTensor {
  const bf16* data;
  std::int64_t sequences, length, stride, row, groups, spacing, heads, head_dim;
};
HeadTensor query_tensor(const bf16* q, const AttentionShape& shape);   // q, dq
HeadTensor output_tensor(const bf16* o, const AttentionShape& shape);  // o, do
HeadTensor key_tensor(const bf16* k, const AttentionShape& shape);     // k, v, dk, dv

// Boxes of `rows` tokens by 64 channels of one head; what a box has outside the tensor reads as 0
// and is not written.
CUtensorMap tile_map(const HeadTensor& tensor, int rows);

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
