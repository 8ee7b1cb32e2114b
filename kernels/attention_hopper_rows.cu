// The first and the last kernel of attention's backward on Hopper (attention_hopper_backward.cuh).
#include "kernels/attention_hopper_backward.cuh"
#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

// 16 bytes of each row of each head for a thread, the rows of a head one after the other.  Fewer
// than 2^32 rows in all: divisions of 64 bits would take more time than the loads.
template <int kHeadDim>
__global__ void prepare(const BackwardWork work, const AttentionSizes s, int query_blocks,
                        const float* lse, const bf16* o, const bf16* d_o) {
  constexpr int kQueries = BackwardWork::queries(kHeadDim), kKeys = BackwardWork::keys(kHeadDim);
  constexpr int kThreads = kHeadDim / 8;  // of a row; padded rows fill whole warps
  const unsigned padded = query_blocks * kQueries, part = threadIdx.x % kThreads;
  const unsigned to = blockIdx.x * (blockDim.x / kThreads) + threadIdx.x / kThreads;
  const unsigned of_head = to / padded;
  const int query = static_cast<int>(to - of_head * padded);
  const int sequence = static_cast<int>(of_head / s.heads);
  const int head = static_cast<int>(of_head) - sequence * s.heads;
  if (sequence >= s.sequences) return;

  float delta = 0;
  if (query < s.q_length && part * 8 < s.head_dim) {
    const std::int64_t row = (std::int64_t{sequence} * s.q_length + query) * s.heads + head;
    const auto x = load<8>(o + row * s.head_dim + part * 8);
    const auto y = load<8>(d_o + row * s.head_dim + part * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) delta += x[i] * y[i];
  }
#pragma unroll
  for (int distance = kThreads / 2; distance > 0; distance /= 2)
    delta += __shfl_xor_sync(0xffffffff, delta, distance);
  if (part > 0) return;
  work.delta[to] = delta;
  work.lse2[to] = query < s.q_length
                      ? lse[(std::int64_t{sequence} * s.heads + head) * s.q_length + query] * kLog2e
                      : kInfinity;
  if (head > 0) return;
  work.first_key[std::int64_t{sequence} * padded + query] = s.first(sequence, query);
  // A block of keys ends with the first block of queries whose first query sees none of them.
  const int key_blocks = (s.kv_length + kKeys - 1) / kKeys;
  for (int n = query; n < key_blocks; n += padded) {
    int low = 0, high = query_blocks;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (s.first(sequence, middle * kQueries) < (n + 1) * kKeys)
        low = middle + 1;
      else
        high = middle;
    }
    work.end_block[sequence * key_blocks + n] = low;
  }
}

// dq = scale sum, from the order of the threads that made it; a block for each block of queries.
template <int kHeadDim, int kPieces>
__global__ void finish(bf16* dq, const BackwardWork work, const AttentionSizes s,
                       int query_blocks) {
  constexpr int kQueries = BackwardWork::queries(kHeadDim), kPiece = BackwardWork::kPiece;
  constexpr bool kByQueries = kQueries == 128;
  __shared__ alignas(16) __nv_bfloat162 tile[kQueries][kHeadDim / 2 + 4];
  const int m = blockIdx.x % query_blocks, head = blockIdx.x / query_blocks % s.heads;
  const int sequence = blockIdx.x / query_blocks / s.heads;
  const int piece = threadIdx.x / kWarpGroup, t = threadIdx.x % kWarpGroup;
  const float4* from = reinterpret_cast<const float4*>(
      work.dq + (std::int64_t{blockIdx.x} * kPieces + piece) * kPiece);
  const int row = (kByQueries ? piece * 64 : 0) + t / 32 * 16 + t % 32 / 4;
  const int pair = (kByQueries ? 0 : piece * 32) + t % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float4 x = from[j * kWarpGroup + t];
    tile[row][pair + 4 * j] = __floats2bfloat162_rn(x.x * s.scale, x.y * s.scale);
    tile[row + 8][pair + 4 * j] = __floats2bfloat162_rn(x.z * s.scale, x.w * s.scale);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kQueries * kHeadDim / 8; i += kPieces * kWarpGroup) {
    const int query = i / (kHeadDim / 8), unit = i % (kHeadDim / 8);
    if (m * kQueries + query >= s.q_length || unit * 8 >= s.head_dim) continue;
    reinterpret_cast<uint4*>(dq + s.q_place(sequence, m * kQueries + query, head))[unit] =
        *reinterpret_cast<const uint4*>(&tile[query][unit * 4]);
  }
}

}  // namespace

std::size_t BackwardWork::cut(const AttentionShape& s, void* memory) {
  const std::int64_t blocks = s.sequences * s.heads * query_blocks(s);
  std::size_t used = 0;
  const auto take = [&](auto*& part, std::int64_t count) {
    part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(static_cast<char*>(memory) +
                                                                     used);
    used += (static_cast<std::size_t>(count) * 4 + 127) / 128 * 128;
  };
  take(dq, blocks * pieces(s.head_dim) * kPiece);
  take(lse2, blocks * queries(s.head_dim));
  take(delta, blocks * queries(s.head_dim));
  take(first_key, s.sequences * query_blocks(s) * queries(s.head_dim));
  take(end_block, s.sequences * ((s.kv_length + keys(s.head_dim) - 1) / keys(s.head_dim)));
  take(turns, 2 * blocks + 1);
  next_tile = turns + 2 * blocks;
  return used;
}

void prepare_backward(const BackwardWork& work, const AttentionShape& shape,
                      const AttentionSizes& sizes, const float* lse, const bf16* o, const bf16* d_o,
                      cudaStream_t stream) {
  const std::int64_t blocks = BackwardWork::query_blocks(shape),
                     all = shape.sequences * shape.heads * blocks;
  const int of_row = shape.head_dim <= 64 ? 8 : shape.head_dim <= 128 ? 16 : 32;
  const std::int64_t threads = all * BackwardWork::queries(shape.head_dim) * of_row;
  const auto grid = static_cast<unsigned>((threads + 255) / 256);
  check(cudaMemsetAsync(work.turns, 0, static_cast<std::size_t>(2 * all + 1) * 4, stream));
  const auto kernel = of_row == 8 ? prepare<64> : of_row == 16 ? prepare<128> : prepare<256>;
  kernel<<<grid, 256, 0, stream>>>(work, sizes, static_cast<int>(blocks), lse, o, d_o);
  check(cudaGetLastError());
}

void finish_backward(bf16* dq, const BackwardWork& work, const AttentionShape& shape,
                     const AttentionSizes& sizes, cudaStream_t stream) {
  const std::int64_t blocks = BackwardWork::query_blocks(shape);
  const int pieces = BackwardWork::pieces(shape.head_dim);
  const auto kernel = shape.head_dim <= 64 ? finish<64, 2>
                      : pieces == 2        ? finish<128, 2>
                      : pieces == 3        ? finish<192, 3>
                                           : finish<256, 4>;
  kernel<<<static_cast<unsigned>(shape.sequences * shape.heads * blocks), pieces * kWarpGroup, 0,
           stream>>>(dq, work, sizes, static_cast<int>(blocks));
  check(cudaGetLastError());
}

}  // namespace mt::cuda
