// Attention's backward on Hopper, in three kernels.  `prepare` makes what the rows need; the second
// makes dK and dV and sums dQ in f32; `finish` rounds dQ.  A block of the second holds 128 keys of
// one key head, 64 for each of two consumers, and walks the queries that see them from the last to
// the first:
//   S^T = K Q^T, dP^T = V dO^T, P^T and dS^T in registers; dV += P^T dO, dK += dS^T Q;
//   dS^T through shared memory; dQ = dS K, summed over the blocks in f32 memory.
// The sums of dQ are added in the order of the keys, each block waiting for the one before, so that
// results do not depend on timing.  Blocks of one head advance through the queries one behind the
// other, and hardly ever wait (cf. Dao: arXiv:2307.08691, 3.2; Shah et al.: arXiv:2407.08608).
#include <algorithm>

#include "kernels/attention_hopper.cuh"
#include "kernels/cuda_check.h"
#include "kernels/wgmma.cuh"

namespace mt::cuda {
namespace {

constexpr int kKeys = 128, kHalf = 64;  // keys of a block, of a consumer
constexpr int kPiece = 64 * 64;         // elements of dQ that a consumer makes in a step

// Where `prepare` leaves what it makes.  Queries are in blocks of kQueries, padded.
struct Work {
  float *lse2, *delta;      // [sequences, heads, blocks, kQueries]: lse log2(e), or inf for padding
  std::int32_t* first_key;  // [sequences, blocks, kQueries]
  std::int32_t* end_block;  // [sequences, key blocks]: query blocks from here on see none of them
  float* dq;                // [sequences, heads, blocks, 2 consumers, 8, 128 threads, 4]
  int* turns;               // [sequences, heads, blocks]: key blocks that have added to dq
  int* next_tile;
};

// queries: of a block; with 64 channels twice as many fit as with 128.
constexpr int queries_of(int head_dim) { return head_dim == 64 ? 128 : 64; }

template <int kChannels>
struct Shared {
  static constexpr int kHeadDim = kChannels, kQueries = queries_of(kChannels), kStages = 2;
  alignas(1024) bf16 k[kKeys * kHeadDim];
  alignas(1024) bf16 v[kKeys * kHeadDim];
  alignas(1024) bf16 q[kStages][kQueries * kHeadDim];
  alignas(1024) bf16 d_o[kStages][kQueries * kHeadDim];
  // dS^T of a step, 64 queries a row, and of the two steps before: a consumer reads the other's
  // last one while it writes its own next one, and may be one step ahead.
  alignas(1024) bf16 ds[3][kKeys * kQueries];
  alignas(1024) float dq[2][kPiece];
  alignas(128) float lse2[kStages][kQueries], delta[kStages][kQueries];
  Barrier kv_full, kv_empty, q_full[kStages], q_empty[kStages], do_full[kStages], do_empty[kStages];
  Barrier dq_full[2], dq_empty, tile_full, tile_empty;
  int tile;

  __device__ void init() {
    kv_full.init(1);
    kv_empty.init(2);
    for (int i = 0; i < kStages; ++i) {
      q_full[i].init(1);
      do_full[i].init(1);
      q_empty[i].init(2 * kWarpGroup);
      do_empty[i].init(2 * kWarpGroup);
      dq_full[i].init(2 * kWarpGroup);
    }
    dq_empty.init(1);
    tile_full.init(1);
    tile_empty.init(2 * kWarpGroup + 2);
    fence_barrier_init();
  }
};

struct Arguments {
  CUtensorMap q, k, v, d_o, dk, dv;
  Work work;
  AttentionSizes sizes;
  TileOrder order;
  KeepRule keep;
  int query_blocks;
};

// The query blocks [begin, end) that see some of a block's keys.
struct QueryBlocks {
  int begin, end, key_block, sequence, kv_head;
};
template <class Memory>
__device__ QueryBlocks query_blocks(const Arguments& a, int tile) {
  const auto [n, head] = a.order.at(tile);  // the longest first
  const int sequence = head / a.sizes.kv_heads;
  return {n * kKeys / Memory::kQueries, a.work.end_block[sequence * a.order.per_head + n], n,
          sequence, head % a.sizes.kv_heads};
}

// f(head, block of queries) in the order in which a block takes them.
template <class F>
__device__ void for_steps(const Arguments& a, const QueryBlocks& t, const F& f) {
  for (int g = 0; g < a.sizes.group(); ++g)
    for (int m = t.end - 1; m >= t.begin; --m) f(t.kv_head * a.sizes.group() + g, m);
}

template <class Memory>
__device__ void load_tiles(Memory& shared, const Arguments& a) {
  constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  int stage = 0, parity = 1, tile_parity = 1;
  for (int tile = blockIdx.x;; tile_parity ^= 1) {
    shared.tile_empty.wait(tile_parity);
    shared.tile = tile;
    shared.tile_full.arrive();
    if (tile >= a.order.size()) return;
    const QueryBlocks t = query_blocks<Memory>(a, tile);
    tile = gridDim.x + atomicAdd(a.work.next_tile, 1);

    shared.kv_empty.wait(tile_parity);
    shared.kv_full.arrive_and_expect(2 * kKeys * kHeadDim * 2);
    for (int c = 0; c < kHeadDim; c += 64) {
      load_tile(shared.k + c * kKeys, a.k, shared.kv_full, c, t.kv_head, t.key_block * kKeys,
                t.sequence);
      load_tile(shared.v + c * kKeys, a.v, shared.kv_full, c, t.kv_head, t.key_block * kKeys,
                t.sequence);
    }
    for_steps(a, t, [&](int head, int m) {
      const std::int64_t rows =
          ((std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m) * kQueries;
      Barrier& q_full = shared.q_full[stage];
      shared.q_empty[stage].wait(parity);
      q_full.arrive_and_expect(kQueries * (kHeadDim * 2 + 4));
      for (int c = 0; c < kHeadDim; c += 64)
        load_tile(shared.q[stage] + c * kQueries, a.q, q_full, c, head, m * kQueries, t.sequence);
      load_bytes(shared.lse2[stage], a.work.lse2 + rows, kQueries * 4, q_full);

      Barrier& do_full = shared.do_full[stage];
      shared.do_empty[stage].wait(parity);
      do_full.arrive_and_expect(kQueries * (kHeadDim * 2 + 4));
      for (int c = 0; c < kHeadDim; c += 64)
        load_tile(shared.d_o[stage] + c * kQueries, a.d_o, do_full, c, head, m * kQueries,
                  t.sequence);
      load_bytes(shared.delta[stage], a.work.delta + rows, kQueries * 4, do_full);
      if (++stage == Memory::kStages) stage = 0, parity ^= 1;
    });
  }
}

// Adds dQ of the steps to memory.  Two threads take turns, so that one waits for its sums to arrive
// while the other's are on their way.
template <class Memory>
__device__ void add_dq(Memory& shared, const Arguments& a, int number) {
  int tile_parity = 0, parity = 0, turn = 0;
  for (;; tile_parity ^= 1) {
    shared.tile_full.wait(tile_parity);
    const int tile = shared.tile;
    shared.tile_empty.arrive();
    if (tile >= a.order.size()) return;
    const QueryBlocks t = query_blocks<Memory>(a, tile);
    for_steps(a, t, [&](int head, int m) {
      turn ^= 1;
      if (turn == number) return;
      const std::int64_t block =
          (std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m;
      int* const turns = a.work.turns + block;
      float* const to = a.work.dq + block * 2 * kPiece;
      const int before = t.key_block - a.sizes.first(t.sequence, m * Memory::kQueries) / kKeys;
      if (before > 0) wait_for(turns, before);
      shared.dq_full[number].wait(parity);
      parity ^= 1;
      if (before > 0)
        add_floats(to, shared.dq[0], sizeof(shared.dq));
      else
        store_bytes(to, shared.dq, sizeof(shared.dq));
      store_commit();
      store_wait_read();
      shared.dq_empty.arrive();
      store_wait();
      publish(turns, before + 1);
    });
  }
}

template <class Memory>
struct Consumer {
  static constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  Memory& shared;
  const Arguments& a;
  const int number, warp, lane;
  float dk[kHeadDim / 2], dv[kHeadDim / 2];
  int stage = 0, parity = 0, dq_parity = 1;  // of what is to come
  int buffer = 0;                            // of the next dS
  int handover = 0;                          // which pair of named barriers comes next

  static constexpr int kHandover = 1, kBoth = 5, kOwn = 6;  // named barriers

  // out^T = rows R^T for this consumer's 64 rows, of K or V, and all queries' R, of Q or dO.
  __device__ void multiply_rows(float (&out)[kQueries / 2], const bf16* rows, const bf16* queries) {
    pin(out);
    const std::uint32_t x = operand(rows + number * kHalf * 64), y = operand(queries);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i)
      Wgmma<kQueries>::template multiply<0, 0>(out, columns16(x, i, kKeys),
                                               columns16(y, i, kQueries), i > 0);
    wgmma_commit();
  }

  // out += x R, over the queries.
  __device__ void multiply_queries(float (&out)[kHeadDim / 2],
                                   const std::uint32_t (&x)[kQueries / 16][4],
                                   const bf16* queries) {
    const std::uint32_t y = operand(queries, kQueries * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i)
      Wgmma<kHeadDim>::template multiply<1>(out, x[i], rows16(y, i));
  }

  // dq = dS K over all keys, from the buffer of both consumers: of the 64 x 64 pieces, one for 64
  // of the queries, or of the channels.
  __device__ void multiply_keys(float (&dq)[32], int from) {
    named_sync(kHandover + 2 * (1 - number) + handover, 2 * kWarpGroup);  // the other's dS
    handover ^= 1;
    pin(dq);
    constexpr bool kByQueries = kQueries == 128;
    const std::uint32_t ds = operand(shared.ds[from] + (kByQueries ? number * kKeys * 64 : 0));
    const std::uint32_t k = operand(shared.k + (kByQueries ? 0 : number * kKeys * 64));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<64>::template multiply<1, 1>(dq, rows16(ds, i), rows16(k, i), i > 0);
    wgmma_commit();
  }

  __device__ void hand_over_ds() {
    named_arrive(kHandover + 2 * number + handover, 2 * kWarpGroup);
  }

  __device__ void hand_over_dq(const float (&dq)[32]) {
    shared.dq_empty.wait(dq_parity);
    dq_parity ^= 1;
    float4* to = reinterpret_cast<float4*>(shared.dq[number]) + threadIdx.x % kWarpGroup;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      to[j * kWarpGroup] = make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
    fence_async_shared();
    shared.dq_full[dq_parity].arrive();
  }

  // f(element 4 j + x of two results in step, key within the block, query within its block).
  template <class F>
  __device__ void for_elements(const F& f) {
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j)
#pragma unroll
      for (int x = 0; x < 4; ++x)
        f(4 * j + x, number * kHalf + warp * 16 + lane / 4 + x / 2 * 8,
          8 * j + lane % 4 * 2 + x % 2);
  }

  // P^T from S^T.  first_key: of the block's queries.
  __device__ void probabilities(float (&p)[kQueries / 2], const QueryBlocks& t, int m,
                                const std::int32_t* first_key, int largest_first_key) {
    const float scale = a.sizes.scale * kLog2e;
    for_elements([&](int i, int, int query) {
      p[i] = exp2_approx(fmaf(p[i], scale, -shared.lse2[stage][query]));
    });
    // Does every query of the block see all keys of this consumer?
    const int first = t.key_block * kKeys + number * kHalf;
    if (first + kHalf <= min(m * kQueries + 1, a.sizes.kv_length) && first >= largest_first_key)
      return;
    for_elements([&](int i, int key_in_block, int query) {
      const int key = t.key_block * kKeys + key_in_block;
      if (key > min(m * kQueries + query, a.sizes.kv_length - 1) || key < first_key[query])
        p[i] = 0;
    });
  }

  // dS^T into `ds` from P^T and dP^T; P^T becomes what was multiplied with V.
  template <bool kDropout>
  __device__ void gradients(float (&p)[kQueries / 2], float (&ds)[kQueries / 2],
                            const QueryBlocks& t, int head, int m) {
    const std::uint32_t sample = kDropout ? a.keep.sample(t.sequence) : 0;
    for_elements([&](int i, int key_in_block, int query) {
      float factor = 1;
      if constexpr (kDropout)
        factor = a.keep.factor_of(sample, head, m * kQueries + query,
                                  t.key_block * kKeys + key_in_block);
      ds[i] = p[i] * (factor * ds[i] - shared.delta[stage][query]);
      p[i] *= factor;
    });
  }

  __device__ void write_ds(const std::uint32_t (&ds)[kQueries / 16][4]) {
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i) {
      const int row = number * kHalf + warp * 16 + lane % 16, unit = 2 * i + lane / 16;
      store_matrices(shared.ds[buffer] + i / 4 * kKeys * 64 + swizzled(row, unit % 8), ds[i][0],
                     ds[i][1], ds[i][2], ds[i][3]);
    }
    fence_async_shared();
  }

  // A step.  dQ lags one step behind, so that neither consumer waits for the other's dS.
  template <bool kDropout, bool kFirst>
  __device__ void step(const QueryBlocks& t, int head, int m) {
    float p[kQueries / 2], ds[kQueries / 2];
    shared.q_full[stage].wait(parity);
    multiply_rows(p, shared.k, shared.q[stage]);
    shared.do_full[stage].wait(parity);
    multiply_rows(ds, shared.v, shared.d_o[stage]);
    const std::int32_t* first_key =
        a.work.first_key + (std::int64_t{t.sequence} * a.query_blocks + m) * kQueries;
    const int largest_first_key = first_key[kQueries - 1];
    wgmma_wait<1>();
    pin(p);
    probabilities(p, t, m, first_key, largest_first_key);
    wgmma_wait<0>();
    pin(ds);
    gradients<kDropout>(p, ds, t, head, m);
    std::uint32_t p16[kQueries / 16][4], ds16[kQueries / 16][4];
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i)
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        p16[i][x] = pack_pair<bf16>(p[8 * i + 2 * x], p[8 * i + 2 * x + 1]);
        ds16[i][x] = pack_pair<bf16>(ds[8 * i + 2 * x], ds[8 * i + 2 * x + 1]);
      }
    write_ds(ds16);

    float dq[32];
    if constexpr (!kFirst) multiply_keys(dq, (buffer + 2) % 3);
    pin(dv);
    pin(dk);
    multiply_queries(dv, p16, shared.d_o[stage]);
    multiply_queries(dk, ds16, shared.q[stage]);
    wgmma_commit();
    if constexpr (!kFirst) {
      wgmma_wait<1>();
      pin(dq);
    }
    hand_over_ds();
    if constexpr (!kFirst) hand_over_dq(dq);
    wgmma_wait<0>();
    pin(dv);
    pin(dk);
    shared.q_empty[stage].arrive();
    shared.do_empty[stage].arrive();
    if (++stage == Memory::kStages) stage = 0, parity ^= 1;
    buffer = (buffer + 1) % 3;
  }

  __device__ void write(const float (&x)[kHeadDim / 2], float factor, bf16* to) {
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; j += 2) {
      const int row = number * kHalf + warp * 16 + lane % 16, unit = j + lane / 16;
      store_matrices(to + unit / 8 * kKeys * 64 + swizzled(row, unit % 8),
                     pack_pair<bf16>(x[4 * j] * factor, x[4 * j + 1] * factor),
                     pack_pair<bf16>(x[4 * j + 2] * factor, x[4 * j + 3] * factor),
                     pack_pair<bf16>(x[4 * j + 4] * factor, x[4 * j + 5] * factor),
                     pack_pair<bf16>(x[4 * j + 6] * factor, x[4 * j + 7] * factor));
    }
  }

  // dK and dV to the tensors by way of K's and V's shared memory.
  __device__ void finish(const QueryBlocks& t) {
    named_sync(kBoth, 2 * kWarpGroup);  // the other reads K no more
    write(dv, 1, shared.v);
    write(dk, a.sizes.scale, shared.k);
    fence_async_shared();
    named_sync(kOwn + number, kWarpGroup);
    if (threadIdx.x % kWarpGroup != 0) return;
    const int row = t.key_block * kKeys + number * kHalf;
    for (int c = 0; c < kHeadDim; c += 64) {
      const int from = c * kKeys + number * kHalf * 64;
      store_tile(a.dv, shared.v + from, c, t.kv_head, row, t.sequence);
      store_tile(a.dk, shared.k + from, c, t.kv_head, row, t.sequence);
    }
    store_commit();
    store_wait_read();
    shared.kv_empty.arrive();
  }

  template <bool kDropout>
  __device__ void run() {
    for (int tile_parity = 0;; tile_parity ^= 1) {
      shared.tile_full.wait(tile_parity);
      const int tile = shared.tile;
      shared.tile_empty.arrive();
      if (tile >= a.order.size()) break;
      const QueryBlocks t = query_blocks<Memory>(a, tile);
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) dk[i] = dv[i] = 0;
      handover = 0;
      shared.kv_full.wait(tile_parity);
      // Every key is seen by its own query, so there is a first step.
      step<kDropout, true>(t, t.kv_head * a.sizes.group(), t.end - 1);
      for (int g = 0; g < a.sizes.group(); ++g)
        for (int m = t.end - (g == 0 ? 2 : 1); m >= t.begin; --m)
          step<kDropout, false>(t, t.kv_head * a.sizes.group() + g, m);
      float dq[32];
      multiply_keys(dq, (buffer + 2) % 3);
      wgmma_wait<0>();
      pin(dq);
      hand_over_dq(dq);
      finish(t);
    }
    if (threadIdx.x % kWarpGroup == 0) store_wait();
  }
};

template <class Memory, bool kDropout>
__global__ void __launch_bounds__(3 * kWarpGroup, 1)
    backward_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const int group = __shfl_sync(0xffffffff, threadIdx.x / kWarpGroup, 0);
  if (group == 0) {
    give_registers_back<24>();
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 != 0 || warp == 3) return;
    if (warp == 0)
      load_tiles(shared, a);
    else
      add_dq(shared, a, warp - 1);
  } else {
    take_registers<240>();
    Consumer<Memory> c{shared, a, group - 1, static_cast<int>(threadIdx.x / 32 % 4),
                       static_cast<int>(threadIdx.x % 32)};
    c.template run<kDropout>();
  }
}

// A warp for each row of each head.
template <class Memory>
__global__ void prepare(Arguments a, const float* lse, const bf16* o, const bf16* d_o) {
  constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  const AttentionSizes& s = a.sizes;
  const int padded = a.query_blocks * kQueries, lane = threadIdx.x % 32;
  const std::int64_t warp = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (warp >= std::int64_t{s.sequences} * padded * s.heads) return;
  const int head = static_cast<int>(warp % s.heads);
  const int query = static_cast<int>(warp / s.heads % padded);
  const int sequence = static_cast<int>(warp / s.heads / padded);

  float delta = 0;
  if (query < s.q_length) {
    const std::int64_t row = (std::int64_t{sequence} * s.q_length + query) * s.heads + head;
    constexpr int kPairs = kHeadDim / 64;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::int64_t at = row * kHeadDim / 2 + lane * kPairs + i;
      const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(o)[at]);
      const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(d_o)[at]);
      delta += x.x * y.x + x.y * y.y;
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    delta += __shfl_xor_sync(0xffffffff, delta, distance);
  if (lane > 0) return;
  const std::int64_t to = (std::int64_t{sequence} * s.heads + head) * padded + query;
  a.work.delta[to] = delta;
  a.work.lse2[to] =
      query < s.q_length
          ? lse[(std::int64_t{sequence} * s.heads + head) * s.q_length + query] * kLog2e
          : kInfinity;
  if (head > 0) return;
  a.work.first_key[std::int64_t{sequence} * padded + query] = s.first(sequence, query);
  // The block's end: the first block of queries whose first query sees none of its keys.
  if (query % kKeys != 0 || query >= s.q_length) return;
  int low = query / kQueries + 1, high = a.query_blocks;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (s.first(sequence, middle * kQueries) < query + kKeys)
      low = middle + 1;
    else
      high = middle;
  }
  a.work.end_block[sequence * a.order.per_head + query / kKeys] = low;
}

// dq = scale sum, from the order of the threads that made it; a block for each block of queries.
template <class Memory>
__global__ void finish(bf16* dq, Arguments a) {
  constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  constexpr bool kByQueries = kQueries == 128;
  __shared__ alignas(16) __nv_bfloat162 tile[kQueries][kHeadDim / 2 + 4];
  const AttentionSizes& s = a.sizes;
  const int m = blockIdx.x % a.query_blocks, head = blockIdx.x / a.query_blocks % s.heads;
  const int sequence = blockIdx.x / a.query_blocks / s.heads;
  const int piece = threadIdx.x / kWarpGroup, t = threadIdx.x % kWarpGroup;
  const float4* from =
      reinterpret_cast<const float4*>(a.work.dq + (2 * std::int64_t{blockIdx.x} + piece) * kPiece);
  const int row = (kByQueries ? piece * 64 : 0) + t / 32 * 16 + t % 32 / 4;
  const int pair = (kByQueries ? 0 : piece * 32) + t % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float4 x = from[j * kWarpGroup + t];
    tile[row][pair + 4 * j] = __floats2bfloat162_rn(x.x * s.scale, x.y * s.scale);
    tile[row + 8][pair + 4 * j] = __floats2bfloat162_rn(x.z * s.scale, x.w * s.scale);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kQueries * kHeadDim / 8; i += 2 * kWarpGroup) {
    const int query = i / (kHeadDim / 8), unit = i % (kHeadDim / 8);
    if (m * kQueries + query >= s.q_length) continue;
    const std::int64_t to =
        (std::int64_t{sequence} * s.q_length + m * kQueries + query) * s.heads + head;
    reinterpret_cast<uint4*>(dq + to * kHeadDim)[unit] =
        *reinterpret_cast<const uint4*>(&tile[query][unit * 4]);
  }
}

std::int64_t query_block_count(const AttentionShape& s) {
  const int queries = queries_of(static_cast<int>(s.head_dim));
  return (s.q_length + queries - 1) / queries;
}

// Cuts the scratch memory into its parts, and returns its size.
std::size_t cut(Work& work, const AttentionShape& s, void* memory) {
  const std::int64_t blocks = s.sequences * s.heads * query_block_count(s);
  const std::int64_t queries = queries_of(static_cast<int>(s.head_dim));
  std::size_t used = 0;
  const auto take = [&](auto*& part, std::int64_t count) {
    part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(static_cast<char*>(memory) +
                                                                     used);
    used += (static_cast<std::size_t>(count) * 4 + 127) / 128 * 128;
  };
  take(work.dq, blocks * 2 * kPiece);
  take(work.lse2, blocks * queries);
  take(work.delta, blocks * queries);
  take(work.first_key, s.sequences * query_block_count(s) * queries);
  take(work.end_block, s.sequences * ((s.kv_length + kKeys - 1) / kKeys));
  take(work.turns, blocks + 1);
  work.next_tile = work.turns + blocks;
  return used;
}

template <class Memory>
void launch(bf16* dq, bf16* dk, bf16* dv, const bf16* d_o, const bf16* o, const float* lse,
            const bf16* q, const bf16* k, const bf16* v, const std::int32_t* first_key,
            const AttentionShape& s, const Dropout& dropout, void* memory, cudaStream_t stream) {
  constexpr int kQueries = Memory::kQueries;
  Work work;
  cut(work, s, memory);
  const auto map = [&](const bf16* tensor, std::int64_t heads, int rows) {
    return tile_map(tensor, s.sequences, s.q_length, s.q_length, heads, s.head_dim, rows);
  };
  const int heads = static_cast<int>(s.sequences * s.kv_heads);
  const int key_blocks = static_cast<int>((s.kv_length + kKeys - 1) / kKeys);
  const int blocks = static_cast<int>(query_block_count(s));
  const Arguments a{map(q, s.heads, kQueries),
                    map(k, s.kv_heads, kKeys),
                    map(v, s.kv_heads, kKeys),
                    map(d_o, s.heads, kQueries),
                    map(dk, s.kv_heads, kHalf),
                    map(dv, s.kv_heads, kHalf),
                    work,
                    AttentionSizes(s, first_key),
                    // Many heads at a time: fewer blocks then wait for one another.
                    {key_blocks, heads, std::min(heads, 64)},
                    KeepRule(dropout),
                    blocks};
  const std::int64_t all_blocks = s.sequences * s.heads * blocks;
  check(cudaMemsetAsync(work.turns, 0, static_cast<std::size_t>(all_blocks + 1) * 4, stream));
  prepare<Memory>
      <<<static_cast<unsigned>((all_blocks * kQueries + 7) / 8), 256, 0, stream>>>(a, lse, o, d_o);
  check(cudaGetLastError());
  launch_persistent(dropout.p > 0 ? backward_kernel<Memory, true> : backward_kernel<Memory, false>,
                    a, a.order.size(), 3 * kWarpGroup, sizeof(Memory), stream);
  finish<Memory><<<static_cast<unsigned>(all_blocks), 2 * kWarpGroup, 0, stream>>>(dq, a);
  check(cudaGetLastError());
}

}  // namespace

std::size_t hopper::attention_backward_work(const AttentionShape& shape) {
  Work work;
  return cut(work, shape, nullptr);
}

void hopper::attention_backward(bf16* dq, bf16* dk, bf16* dv, const bf16* d_o, const bf16* o,
                                const float* lse, const bf16* q, const bf16* k, const bf16* v,
                                const std::int32_t* first_key, const AttentionShape& s,
                                const Dropout& dropout, void* work, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const auto with = [&]<class Memory>() {
    launch<Memory>(dq, dk, dv, d_o, o, lse, q, k, v, first_key, s, dropout, work, stream);
  };
  if (s.head_dim == 64) return with.template operator()<Shared<64>>();
  with.template operator()<Shared<128>>();
}

}  // namespace mt::cuda
