// Attention's backward on Hopper, in three kernels: prepare_backward makes what the rows need, that
// of attention_hopper_backward.cu dK, dV and the sums of dQ, finish_backward rounds dQ.
#pragma once

#include "kernels/attention_hopper.cuh"

namespace mt::cuda {

// Scratch between the kernels.  Queries are in blocks of queries(head_dim), padded.
struct BackwardWork {
  static constexpr int kKeys = 128;       // of a block
  static constexpr int kPiece = 64 * 64;  // elements of dQ that a consumer makes in a step
  // Of a block of queries; with 64 channels twice as many fit as with 128.
  static constexpr int queries(std::int64_t head_dim) { return head_dim <= 64 ? 128 : 64; }
  static std::int64_t query_blocks(const AttentionShape& s) {
    return (s.q_length + queries(s.head_dim) - 1) / queries(s.head_dim);
  }

  float *lse2, *delta;      // [sequences, heads, blocks, queries]: lse log2(e), or inf for padding
  std::int32_t* first_key;  // [sequences, blocks, queries]
  std::int32_t* end_block;  // [sequences, key blocks]: query blocks from here on see none of them
  float* dq;                // [sequences, heads, blocks, 2 consumers, 8, 128 threads, 4]
  int* turns;               // [sequences, heads, blocks]: key blocks that have added to dq
  int* next_tile;

  // Cuts the memory into the parts, and returns its size.
  std::size_t cut(const AttentionShape& shape, void* memory);
};

// turns and next_tile become 0, dq stays as it is.
void prepare_backward(const BackwardWork& work, const AttentionShape& shape,
                      const AttentionSizes& sizes, const float* lse, const bf16* o, const bf16* d_o,
                      cudaStream_t stream);
// dq = scale sum.
void finish_backward(bf16* dq, const BackwardWork& work, const AttentionShape& shape,
                     const AttentionSizes& sizes, cudaStream_t stream);

}  // namespace mt::cuda
