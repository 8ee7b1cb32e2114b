// Attention's backward on Hopper, in three kernels: prepare_backward makes what the rows need, that
// of attention_hopper_backward.cu, or for more than 128 channels of attention_hopper_backward_wide
// or, with narrower values, attention_hopper_backward_latent, dK, dV and the sums of dQ;
// finish_backward rounds what that has not.
#pragma once

#include <algorithm>

#include "kernels/attention_hopper.cuh"
#include "kernels/persistent.cuh"
#include "kernels/wgmma.cuh"

namespace mt::cuda {

// Scratch between the kernels.  Queries are in blocks of queries(head_dim), padded.
struct BackwardWork {
  static constexpr int kTurns = 3;
  static constexpr int kPiece = 64 * 64;  // elements of dQ that a warp group makes at a time
  // Whether heads are as latent attention has them, whose values are narrower.
  static constexpr bool latent(std::int64_t head_dim, std::int64_t values) {
    return head_dim > 128 && head_dim <= 192 && values <= 128;
  }
  // Keys and queries of a block; where rows are short more of them fit.
  static constexpr int keys(std::int64_t head_dim, std::int64_t values) {
    return head_dim <= 128 || latent(head_dim, values) ? 128 : 64;
  }
  static int keys(const AttentionShape& s) { return keys(s.head_dim, s.value_channels()); }
  static constexpr int queries(std::int64_t head_dim) { return head_dim <= 64 ? 128 : 64; }
  static constexpr int pieces(std::int64_t head_dim) {
    return head_dim <= 128 ? 2 : static_cast<int>((head_dim + 63) / 64);
  }
  static std::int64_t query_blocks(const AttentionShape& s) {
    return (s.q_length + queries(s.head_dim) - 1) / queries(s.head_dim);
  }
  static std::int64_t key_blocks(const AttentionShape& s) {
    return (s.kv_length + keys(s) - 1) / keys(s);
  }
  // Where all blocks of keys see all queries, and are fewer than the multiprocessors of an H100 or
  // H200, each meets the queries in so many parts, of at least four blocks, that there are about
  // three times as many tiles of work.
  static int parts(const AttentionShape& s) {
    constexpr std::int64_t kMultiprocessors = 132;
    const std::int64_t tiles = s.sequences * s.kv_heads * key_blocks(s);
    if (s.causal || s.window >= 0 || s.head_dim > 128 || tiles >= kMultiprocessors) return 1;
    return static_cast<int>(std::max<std::int64_t>(
        1, std::min(3 * kMultiprocessors / std::max<std::int64_t>(tiles, 1), query_blocks(s) / 4)));
  }

  float *lse2, *delta;      // [sequences, heads, blocks, queries]: lse log2(e), or inf for padding
  std::int32_t* first_key;  // [sequences, blocks, queries]
  std::int32_t* end_block;  // [sequences, key blocks]: query blocks from here on see none of them
  float* dq;                // [sequences, heads, blocks, pieces, 8, 128 threads, 4]
  float* dkv;               // [parts, dK or dV, sequences, kv_heads, key blocks, as dq], if several
  // [sequences, heads, blocks, kTurns]: key blocks that have added to dq, or to its parts
  int* turns;
  int* next_tile;

  // Cuts the memory into the parts, and returns its size.
  std::size_t cut(const AttentionShape& shape, void* memory);
};

// turns and next_tile become 0, dq stays as it is.
void prepare_backward(const BackwardWork& work, const AttentionShape& shape,
                      const AttentionSizes& sizes, const float* lse, const bf16* o, const bf16* d_o,
                      cudaStream_t stream);
// A gradient whose sums lie in memory by blocks of queries(head_dim) rows as dq of BackwardWork, in
// parts, which are added in their order.
struct GradientSums {
  bf16* to;
  HeadTensor at;  // where in `to`
  const float* sums;
  int parts, blocks;  // of a head
  std::int64_t part;  // elements
  float scale;
};
struct AllSums {
  GradientSums gradients[3];
};
void finish_backward(const AllSums& sums, int count, cudaStream_t stream);

struct BackwardTensors {
  bf16 *dq, *dk, *dv;
  const bf16 *d_o, *o;
  const float* lse;
  const bf16 *q, *k, *v;
  const std::int32_t* first_key;
};
// More than 128 channels, of values too.
void attention_backward_wide(const BackwardTensors& tensors, const AttentionShape& shape,
                             const Dropout& dropout, void* work, cudaStream_t stream);
// BackwardWork::latent().
void attention_backward_latent(const BackwardTensors& tensors, const AttentionShape& shape,
                               const Dropout& dropout, void* work, cudaStream_t stream);

// BackwardArguments: what the second kernel is told.
struct BackwardArguments {
  CUtensorMap q, k, v, d_o, dq, dk, dv;
  BackwardWork work;
  AttentionSizes sizes;
  TileOrder order;
  KeepRule keep;
  int query_blocks, parts;  // parts: the tiles of a head are as of so many heads
};

// The query blocks [begin, end) that see some of a block's keys, or of them a part.  Not causal: no
// key's document or window hides it from the queries from whole_from on.
struct QueryBlocks {
  int begin, end, key_block, sequence, kv_head, whole_from = 0, part = 0;
};
template <class Memory>
__device__ QueryBlocks query_blocks(const BackwardArguments& a, int tile) {
  const auto [n, place] = a.order.at(tile);  // the longest first
  const int head = Memory::kCausal ? place : place / a.parts, sequence = head / a.sizes.kv_heads;
  QueryBlocks t{n * Memory::kKeys / Memory::kQueries,
                a.work.end_block[sequence * a.order.per_head + n], n, sequence,
                head % a.sizes.kv_heads};
  if constexpr (!Memory::kCausal) {
    const AttentionSizes s = a.sizes.masked<false>(sequence);
    t.begin = s.first(sequence, n * Memory::kKeys) / Memory::kQueries;
    t.whole_from = s.first(sequence, (n + 1) * Memory::kKeys - 1);
    if (a.parts > 1) {
      t.part = place - head * a.parts;
      t.begin = t.part * a.query_blocks / a.parts;
      t.end = (t.part + 1) * a.query_blocks / a.parts;
    }
  }
  return t;
}

// How many blocks of keys before this one meet the m-th queries.
template <class Memory>
__device__ int key_blocks_before(const BackwardArguments& a, const QueryBlocks& t, int m) {
  const AttentionSizes s = a.sizes.masked<Memory::kCausal>(t.sequence);
  return t.key_block - s.first(t.sequence, m * Memory::kQueries) / Memory::kKeys;
}

// Whether no block of keys after this one meets the m-th queries, where a kernel completes dQ
// itself.
template <class Memory>
__device__ bool completes_dq(const BackwardArguments& a, const QueryBlocks& t, int m) {
  return Memory::kCompletesDq &&
         (t.key_block + 1) * Memory::kKeys >= min((m + 1) * Memory::kQueries, a.sizes.kv_length);
}

// f(head, block of queries) in the order in which a block takes them.
template <class F>
__device__ void for_steps(const BackwardArguments& a, const QueryBlocks& t, const F& f) {
  for (int g = 0; g < a.sizes.group(); ++g)
    for (int m = t.end - 1; m >= t.begin; --m) f(t.kv_head * a.sizes.group() + g, m);
}

// The thread that loads: hands out this block's tiles, each with its keys and values on their way
// to shared memory, and calls f(tile), which loads what its steps need.  Tiles are taken in their
// order by blocks that run, so that a tile waits for none (wait_for) whose block has no
// multiprocessor yet: kernels beside this one, as NCCL's that wait for other ranks, may hold some
// for as long as they like.
template <class Memory, class F>
__device__ void load_each_tile(Memory& shared, const BackwardArguments& a, const F& f) {
  constexpr int kHeadDim = Memory::kHeadDim, kKeys = Memory::kKeys;
  const auto take_tile = [&] { return atomicAdd(a.work.next_tile, 1); };
  int tile_parity = 1;
  for (int tile = take_tile();; tile_parity ^= 1) {
    shared.tile_empty.wait(tile_parity);
    shared.tile = tile;
    shared.tile_full.arrive();
    if (tile >= a.order.size()) return;
    const QueryBlocks t = query_blocks<Memory>(a, tile);
    tile = take_tile();

    shared.kv_empty.wait(tile_parity);
    shared.kv_full.arrive_and_expect(kKeys * (kHeadDim + Memory::kValues) * 2);
    const auto load = [&](bf16* to, const CUtensorMap& map, int channels) {
      for (int c = 0; c < channels; c += 64)
        load_tile(to + c * kKeys, map, shared.kv_full, c, 0, t.kv_head, t.key_block * kKeys,
                  t.sequence);
    };
    load(shared.k, a.k, kHeadDim);
    load(shared.v, a.v, Memory::kValues);
    f(t);
  }
}

// All others: f(tile, parity of its turn) for each tile that is handed out.
template <class Memory, class F>
__device__ void for_tiles(Memory& shared, const BackwardArguments& a, const F& f) {
  for (int parity = 0;; parity ^= 1) {
    shared.tile_full.wait(parity);
    const int tile = shared.tile;
    shared.tile_empty.arrive();
    if (tile >= a.order.size()) return;
    f(query_blocks<Memory>(a, tile), parity);
  }
}

// What a warp group does with 64 of a block's keys: a thread holds parts of two of them, r and
// r + 8, in the order of wgmma.cuh.
template <class Memory>
struct BackwardRows {
  static constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries,
                       kKeys = Memory::kKeys;
  Memory& shared;
  const BackwardArguments& a;
  const int first_row, warp, lane;  // first_row: of the 64 within the block

  // out^T = rows R^T for the 64 rows, of K or V, and all queries' R, of Q or dO.
  template <int kChannels = kHeadDim>
  __device__ void multiply_rows(float (&out)[kQueries / 2], const bf16* rows, const bf16* queries) {
    pin(out);
    const std::uint32_t x = operand(rows + first_row * 64), y = operand(queries);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kChannels / 16; ++i)
      Wgmma<kQueries>::template multiply<0, 0>(out, columns16(x, i, kKeys),
                                               columns16(y, i, kQueries), i > 0);
    wgmma_commit();
  }

  // out += x R, over the queries.
  template <int kElements>
  __device__ void multiply_queries(float (&out)[kElements],
                                   const std::uint32_t (&x)[kQueries / 16][4],
                                   const bf16* queries) {
    const std::uint32_t y = operand(queries, kQueries * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i)
      Wgmma<2 * kElements>::template multiply<1>(out, x[i], rows16(y, i));
  }

  // f(element 4 j + x of two results in step, key within the block, query within its block).
  template <class F>
  __device__ void for_elements(const F& f) {
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
      for (int x = 0; x < 4; ++x)
        f(4 * j + x, first_row + warp * 16 + lane / 4 + x / 2 * 8, 8 * j + lane % 4 * 2 + x % 2);
  }

  // f(element, whether dropout keeps it) of the m-th queries; an element's query in its block.
  template <class F>
  __device__ void each_kept(const QueryBlocks& t, int head, int m, const F& f) {
    const std::uint32_t sample = a.keep.sample(t.sequence);
    const auto words = [&](int row, int query) {
      return a.keep.words(sample, head, m * kQueries + query,
                          t.key_block * kKeys + first_row + warp * 16 + row);
    };
    each_kept_of_keys<kQueries>(a.keep.threshold, words, f);
  }
  __device__ int query_of(int i) const { return i / 4 * 8 + lane % 4 * 2 + i % 2; }

  // S^T with its bias: the same in the second row as in the first of a query eight places before.
  __device__ void add_bias(float (&p)[kQueries / 2], const QueryBlocks& t, int head, int m) {
    const auto bias = a.sizes.head_bias(head);
    const int key = t.key_block * kKeys + first_row + warp * 16 + lane / 4;
    const int first =
        key - a.sizes.masked<Memory::kCausal>(t.sequence).own(m * kQueries + query_of(0));
    float before[2] = {bias.at(first + 8), bias.at(first + 7)};
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const float here = bias.at(first - 8 * j - x);
        p[4 * j + x] = fmaf(p[4 * j + x], a.sizes.scale, here);
        p[4 * j + 2 + x] = fmaf(p[4 * j + 2 + x], a.sizes.scale, before[x]);
        before[x] = here;
      }
  }

  // P^T from S^T.  first_key: of the block's queries.
  __device__ void probabilities(float (&p)[kQueries / 2], const QueryBlocks& t, int head, int m,
                                const float* lse2, const std::int32_t* first_key,
                                int largest_first_key) {
    if constexpr (Memory::kBiased) add_bias(p, t, head, m);
    const float scale = (Memory::kBiased ? 1 : a.sizes.scale) * kLog2e;
    for_elements(
        [&](int i, int, int query) { p[i] = exp2_approx(fmaf(p[i], scale, -lse2[query])); });
    // Does every query of the block see all of the keys?
    const int first = t.key_block * kKeys + first_row;
    if constexpr (Memory::kCausal) {
      const bool of_one_document = first >= largest_first_key;
      if (of_one_document && first + 64 <= min(m * kQueries + 1, a.sizes.kv_length)) return;
      const auto mask = [&](const auto& hidden) {
        for_elements([&](int i, int key_in_block, int query) {
          const int key = t.key_block * kKeys + key_in_block;
          const int seen_from = key < a.sizes.kv_length ? key - m * kQueries : kQueries;
          if (query < seen_from || hidden(key, query)) p[i] = 0;
        });
      };
      if (of_one_document)
        mask([](int, int) { return false; });
      else
        mask([&](int key, int query) { return key < first_key[query]; });
    } else {
      const AttentionSizes s = a.sizes.masked<false>(t.sequence);
      if (first + 64 <= s.kv_length && first >= largest_first_key && m * kQueries >= t.whole_from)
        return;
      for_elements([&](int i, int key_in_block, int query) {
        const int key = t.key_block * kKeys + key_in_block;
        if (key >= s.kv_length || key < first_key[query] ||
            m * kQueries + query < s.first(t.sequence, key))
          p[i] = 0;
      });
    }
  }
  __device__ const std::int32_t* first_keys(const QueryBlocks& t, int m) const {
    return a.work.first_key + (std::int64_t{t.sequence} * a.query_blocks + m) * kQueries;
  }

  __device__ void pack(std::uint32_t (&to)[kQueries / 16][4], const float (&from)[kQueries / 2]) {
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i)
#pragma unroll
      for (int x = 0; x < 4; ++x)
        to[i][x] = pack_pair<bf16>(from[8 * i + 2 * x], from[8 * i + 2 * x + 1]);
  }

  // dS^T for the copy engine's and wgmma's eyes.
  __device__ void write_ds(bf16* to, const std::uint32_t (&ds)[kQueries / 16][4]) {
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i) {
      const int row = first_row + warp * 16 + lane % 16, unit = 2 * i + lane / 16;
      store_matrices(to + i / 4 * kKeys * 64 + swizzled(row, unit % 8), ds[i][0], ds[i][1],
                     ds[i][2], ds[i][3]);
    }
    fence_async_shared();
  }

  // A sum, times `factor`, to 64 rows of shared memory from `first` on.
  template <int kElements>
  __device__ void write(const float (&x)[kElements], float factor, bf16* to, int first) {
#pragma unroll
    for (int j = 0; j < kElements / 4; j += 2) {
      const int row = first + warp * 16 + lane % 16, unit = j + lane / 16;
      store_matrices(to + unit / 8 * kKeys * 64 + swizzled(row, unit % 8),
                     pack_pair<bf16>(x[4 * j] * factor, x[4 * j + 1] * factor),
                     pack_pair<bf16>(x[4 * j + 2] * factor, x[4 * j + 3] * factor),
                     pack_pair<bf16>(x[4 * j + 4] * factor, x[4 * j + 5] * factor),
                     pack_pair<bf16>(x[4 * j + 6] * factor, x[4 * j + 7] * factor));
    }
  }
  // ... and from there to the tensor; called by one thread.
  template <int kChannels = kHeadDim>
  __device__ void store(const CUtensorMap& map, const bf16* from, const QueryBlocks& t) {
    for (int c = 0; c < kChannels; c += 64)
      store_tile(map, from + c * kKeys + first_row * 64, c, 0, t.kv_head,
                 t.key_block * kKeys + first_row, t.sequence);
  }
};

// The second kernel.  Threads of the first warp group's warps move memory, one of each: the first
// loads tiles, so many after it (Memory::kAdders) add sums of dQ; the two other groups consume.  A
// file says how in functions of its Memory: load_tiles(), add_dq() and consume().
template <class Memory, bool kDropout>
__global__ void __launch_bounds__(3 * kWarpGroup, 1)
    backward_kernel(const __grid_constant__ BackwardArguments a) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const int group = __shfl_sync(0xffffffff, threadIdx.x / kWarpGroup, 0);
  const int warp = static_cast<int>(threadIdx.x / 32 % 4),
            lane = static_cast<int>(threadIdx.x % 32);
  if (group == 0) {
    give_registers_back<Memory::kMovingRegisters>();
    if (lane != 0 || warp > Memory::kAdders) return;
    if (warp == 0)
      load_tiles(shared, a);
    else
      add_dq(shared, a, warp - 1);
  } else {
    take_registers<Memory::kConsumingRegisters>();
    consume<kDropout>(shared, a, group - 1, warp, lane);
  }
}

// All three kernels.
template <class Memory>
void launch_backward(const BackwardTensors& x, const AttentionShape& s, const Dropout& dropout,
                     void* memory, cudaStream_t stream) {
  static_assert(sizeof(Memory) <= 227 * 1024);
  BackwardWork work;
  work.cut(s, memory);
  const AttentionSizes sizes(s, x.first_key);
  const int heads = static_cast<int>(s.sequences * s.kv_heads);
  const int key_blocks = static_cast<int>(BackwardWork::key_blocks(s));
  const int query_blocks = static_cast<int>(BackwardWork::query_blocks(s));
  const int parts = x.first_key ? 1 : BackwardWork::parts(s), in_parts = heads * parts;
  const BackwardArguments a{tile_map(query_tensor(x.q, s), Memory::kQueries),
                            tile_map(key_tensor(x.k, s), Memory::kKeys),
                            tile_map(key_tensor(x.v, s), Memory::kKeys),
                            tile_map(output_tensor(x.d_o, s), Memory::kQueries),
                            tile_map(query_tensor(x.dq, s), 64),
                            tile_map(key_tensor(x.dk, s), 64),
                            tile_map(key_tensor(x.dv, s), 64),
                            work,
                            sizes,
                            // Many heads at a time: fewer blocks then wait for one another.
                            {key_blocks, in_parts, std::min(in_parts, Memory::kHeadsAtATime)},
                            KeepRule(dropout, s),
                            query_blocks,
                            parts};
  prepare_backward(work, s, sizes, x.lse, x.o, x.d_o, stream);
  launch_persistent(dropout.p > 0 ? backward_kernel<Memory, true> : backward_kernel<Memory, false>,
                    a, a.order.size(), 3 * kWarpGroup, sizeof(Memory), stream);
  if (Memory::kCompletesDq) return;
  const std::int64_t all = std::int64_t{heads} * key_blocks * Memory::kKeys * Memory::kHeadDim;
  const int row_blocks = key_blocks * Memory::kKeys / Memory::kQueries;
  finish_backward({{{x.dq, query_tensor(x.dq, s), work.dq, 1, query_blocks, 0, sizes.scale},
                    {x.dk, key_tensor(x.dk, s), work.dkv, parts, row_blocks, 2 * all, sizes.scale},
                    {x.dv, key_tensor(x.dv, s), work.dkv + all, parts, row_blocks, 2 * all, 1}}},
                  parts > 1 ? 3 : 1, stream);
}

}  // namespace mt::cuda
