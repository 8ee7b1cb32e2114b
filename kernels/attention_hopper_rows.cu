// The first and the last kernel of attention's backward on Hopper (attention_hopper_backward.cuh).
#include "kernels/attention_hopper_backward.cuh"
#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

// 16 bytes of each row of each head for a thread, the rows of a head one after the other.  Fewer
// than 2^32 rows in all: divisions of 64 bits would take more time than the loads.
template <int kHeadDim, int kKeys>
__global__ void prepare(const BackwardWork work, const AttentionSizes s, int query_blocks,
                        const float* lse, const bf16* o, const bf16* d_o) {
  constexpr int kQueries = BackwardWork::queries(kHeadDim);
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

// Sums from the order of the threads that made them; a block for each block of rows.
template <int kHeadDim, int kPieces>
__global__ void finish(const __grid_constant__ AllSums all) {
  constexpr int kRows = BackwardWork::queries(kHeadDim), kPiece = BackwardWork::kPiece;
  constexpr bool kByRows = kRows == 128;
  __shared__ alignas(16) __nv_bfloat162 tile[kRows][kHeadDim / 2 + 4];
  const GradientSums& g = all.gradients[blockIdx.y];
  const HeadTensor& at = g.at;
  const int block = blockIdx.x % g.blocks, place = blockIdx.x / g.blocks;
  const int in_group = static_cast<int>(at.heads), group = place / in_group;
  const int sequence = group / static_cast<int>(at.groups);
  if (sequence >= at.sequences) return;
  const int piece = threadIdx.x / kWarpGroup, t = threadIdx.x % kWarpGroup;
  const float4* from = reinterpret_cast<const float4*>(
      g.sums + (std::int64_t{blockIdx.x} * kPieces + piece) * kPiece);
  float4 sums[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) sums[j] = from[j * kWarpGroup + t];
  for (int part = 1; part < g.parts; ++part) {
    from += g.part / 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float4 x = from[j * kWarpGroup + t];
      sums[j].x += x.x, sums[j].y += x.y, sums[j].z += x.z, sums[j].w += x.w;
    }
  }
  const int row = (kByRows ? piece * 64 : 0) + t / 32 * 16 + t % 32 / 4;
  const int pair = (kByRows ? 0 : piece * 32) + t % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float4 x = sums[j];
    tile[row][pair + 4 * j] = __floats2bfloat162_rn(x.x * g.scale, x.y * g.scale);
    tile[row + 8][pair + 4 * j] = __floats2bfloat162_rn(x.z * g.scale, x.w * g.scale);
  }
  __syncthreads();
  bf16* const to = g.to + (sequence * at.stride + block * kRows) * at.row +
                   (group - sequence * at.groups) * at.spacing +
                   (place - group * in_group) * at.head_dim;
  for (int i = threadIdx.x; i < kRows * kHeadDim / 8; i += kPieces * kWarpGroup) {
    const int r = i / (kHeadDim / 8), unit = i % (kHeadDim / 8);
    if (block * kRows + r >= at.length || unit * 8 >= at.head_dim) continue;
    reinterpret_cast<uint4*>(to + r * at.row)[unit] =
        *reinterpret_cast<const uint4*>(&tile[r][unit * 4]);
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
  take(end_block, s.sequences * key_blocks(s));
  const std::int64_t key_rows = s.sequences * s.kv_heads * key_blocks(s) * keys(s);
  take(dkv, parts(s) > 1 ? 2 * parts(s) * key_rows * (s.head_dim <= 64 ? 64 : 128) : 0);
  take(turns, kTurns * blocks + 1);
  next_tile = turns + kTurns * blocks;
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
  check(cudaMemsetAsync(work.turns, 0, static_cast<std::size_t>(BackwardWork::kTurns * all + 1) * 4,
                        stream));
  const auto kernel = of_row == 8                        ? prepare<64, 128>
                      : of_row == 16                     ? prepare<128, 128>
                      : BackwardWork::keys(shape) == 128 ? prepare<256, 128>
                                                         : prepare<256, 64>;
  kernel<<<grid, 256, 0, stream>>>(work, sizes, static_cast<int>(blocks), lse, o, d_o);
  check(cudaGetLastError());
}

void finish_backward(const AllSums& sums, int count, cudaStream_t stream) {
  std::int64_t grid = 0;
  for (int i = 0; i < count; ++i) {
    const HeadTensor& at = sums.gradients[i].at;
    grid = std::max(grid, at.sequences * at.groups * at.heads * sums.gradients[i].blocks);
  }
  const std::int64_t head_dim = sums.gradients[0].at.head_dim;
  const int pieces = BackwardWork::pieces(head_dim);
  const auto kernel = head_dim <= 64 ? finish<64, 2>
                      : pieces == 2  ? finish<128, 2>
                      : pieces == 3  ? finish<192, 3>
                                     : finish<256, 4>;
  const dim3 blocks(static_cast<unsigned>(grid), static_cast<unsigned>(count));
  kernel<<<blocks, pieces * kWarpGroup, 0, stream>>>(sums);
  check(cudaGetLastError());
}

}  // namespace mt::cuda
