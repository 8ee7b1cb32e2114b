// Attention's backward on Hopper for 192 or 256 channels, of values also 128 of 192: the second of
// its three kernels (attention_hopper_backward.cuh).  A block holds 64 keys of one key head and
// walks the queries that see them from the last to the first.  Two warp groups share each step's
// products, since neither has the registers for both sums:
//   the first:   S^T = K Q^T, P^T, which it hands on; dV += P^T dO; dQ's first channels
//   the second:  dP^T = V dO^T, dS^T, which it hands on; dK += dS^T Q; dQ's other channels
// dQ = dS K is summed over the blocks in f32 memory in the order of the keys, as with fewer
// channels (attention_hopper_backward.cu).
//
// Shared memory limits it: by count, the operands and results of a step's 64 x 64 pairs, with 192
// channels and 128 of values, are some 330 KB, 2,600 cycles of it, beside 830 of the matrix units.
// dQ's sums on their way are 96 KB of these, which a block of 128 keys would halve.
#include <utility>

#include "kernels/attention_hopper_backward.cuh"

namespace mt::cuda {
namespace {

constexpr int kPiece = BackwardWork::kPiece;

template <int kChannels, int kOfValues, bool kLastIsOwn>
struct Shared {
  static constexpr bool kCausal = kLastIsOwn, kCompletesDq = false, kBiased = false;
  static constexpr int kHeadDim = kChannels, kValues = kOfValues,  // channels, but for zeros
      kQueries = BackwardWork::queries(kChannels), kKeys = BackwardWork::keys(kChannels),
                       kStages = 2;
  // Pieces of 64 channels of dQ that the first warp group makes, and the second: the first more
  // where its sum is narrower.
  static constexpr int kFirstPieces = kHeadDim == 192 && kValues == 192 ? 1 : 2;
  static constexpr int kOtherPieces = kHeadDim / 64 - kFirstPieces;
  static constexpr int kDoStages = kValues <= 128 ? 2 : 1;  // of dO, and of P^T
  alignas(1024) bf16 k[kKeys * kHeadDim];
  alignas(1024) bf16 v[kKeys * kValues];
  alignas(1024) bf16 q[kStages][kQueries * kHeadDim];
  alignas(1024) bf16 d_o[kDoStages][kQueries * kValues];
  alignas(1024) bf16 ds[2][kKeys * kQueries];
  alignas(1024) float dq[2][kPiece];              // of each warp group
  float4 p[kDoStages][kQueries / 8][kWarpGroup];  // P^T on its way, of each thread
  alignas(128) float lse2[kStages][kQueries], delta[kDoStages][kQueries];
  Barrier kv_full, kv_empty, q_full[kStages], q_empty[kStages];
  Barrier do_full[kDoStages], do_empty[kDoStages], p_full[kDoStages], p_empty[kDoStages];
  Barrier ds_full[2], ds_empty[2], dq_full[2], dq_empty[2], tile_full, tile_empty;
  int tile;

  __device__ void init() {
    kv_full.init(1);
    kv_empty.init(2);
    for (int i = 0; i < kDoStages; ++i) {
      do_full[i].init(1);
      do_empty[i].init(4 + kWarpGroup);  // warps that multiplied, threads that also read themselves
      p_full[i].init(kWarpGroup);
      p_empty[i].init(kWarpGroup);
    }
    for (int i = 0; i < 2; ++i) {
      q_full[i].init(1);
      q_empty[i].init(kWarpGroup + 4);
      ds_full[i].init(kWarpGroup);
      ds_empty[i].init(8);
      dq_full[i].init(kWarpGroup);
      dq_empty[i].init(1);
    }
    tile_full.init(1);
    tile_empty.init(2 * kWarpGroup + 2);
    fence_barrier_init();
  }
};

template <class Memory>
__device__ void load_tiles(Memory& shared, const BackwardArguments& a) {
  constexpr int kQueries = Memory::kQueries;
  Ring<Memory::kStages> ring{.parity = 1};
  Ring<Memory::kDoStages> do_ring{.parity = 1};
  load_each_tile(shared, a, [&](const QueryBlocks& t) {
    for_steps(a, t, [&](int head, int m) {
      const std::int64_t rows =
          ((std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m) * kQueries;
      const int in_group = head - t.kv_head * a.sizes.group();
      const auto load = [&](bf16* to, const CUtensorMap& map, int channels, float* row_to,
                            const float* row_from, Barrier& full) {
        full.arrive_and_expect(kQueries * (channels * 2 + 4));
        for (int c = 0; c < channels; c += 64)
          load_tile(to + c * kQueries, map, full, c, in_group, t.kv_head, m * kQueries, t.sequence);
        load_bytes(row_to, row_from + rows, kQueries * 4, full);
      };
      shared.q_empty[ring.stage].wait(ring.parity);
      load(shared.q[ring.stage], a.q, Memory::kHeadDim, shared.lse2[ring.stage], a.work.lse2,
           shared.q_full[ring.stage]);
      ring.advance();
      shared.do_empty[do_ring.stage].wait(do_ring.parity);
      load(shared.d_o[do_ring.stage], a.d_o, Memory::kValues, shared.delta[do_ring.stage],
           a.work.delta, shared.do_full[do_ring.stage]);
      do_ring.advance();
    });
  });
}

// Adds what a warp group makes of the steps' dQ to memory.
template <class Memory>
__device__ void add_dq(Memory& shared, const BackwardArguments& a, int number) {
  constexpr int kPieces = Memory::kHeadDim / 64;
  const int first = number == 0 ? 0 : Memory::kFirstPieces;
  const int count = number == 0 ? Memory::kFirstPieces : Memory::kOtherPieces;
  int parity = 0;
  for_tiles(shared, a, [&](const QueryBlocks& t, int) {
    for_steps(a, t, [&](int head, int m) {
      const std::int64_t block =
          (std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m;
      int* const turns = a.work.turns + 2 * block + number;
      float* const to = a.work.dq + (block * kPieces + first) * kPiece;
      const int before = key_blocks_before<Memory>(a, t, m);
      if (before > 0) wait_for(turns, before);
      for (int i = 0; i < count; ++i) {
        shared.dq_full[number].wait(parity);
        parity ^= 1;
        if (before > 0)
          add_floats(to + i * kPiece, shared.dq[number], sizeof(shared.dq[number]));
        else
          store_bytes(to + i * kPiece, shared.dq[number], sizeof(shared.dq[number]));
        store_commit();
        store_wait_read();
        shared.dq_empty[number].arrive();
      }
      store_wait();
      publish(turns, before + 1);
    });
  });
}

// kNumber 0: the first warp group, which sums dV; 1: the second, which sums dK.
template <class Memory, int kNumber>
struct Consumer : BackwardRows<Memory> {
  using Rows = BackwardRows<Memory>;
  using Rows::a, Rows::for_elements, Rows::shared;
  static constexpr int kHeadDim = Memory::kHeadDim, kValues = Memory::kValues,
                       kQueries = Memory::kQueries, kKeys = Memory::kKeys;
  static constexpr int kFirstPiece = kNumber == 0 ? 0 : Memory::kFirstPieces;
  static constexpr int kPieces = kNumber == 0 ? Memory::kFirstPieces : Memory::kOtherPieces;
  float sum[(kNumber == 0 ? kValues : kHeadDim) / 2];
  Ring<Memory::kStages> ring{.parity = 0};       // of Q
  Ring<Memory::kDoStages> do_ring{.parity = 0};  // of dO, and of P^T that the other has made
  Ring<2> made{.parity = 0};                     // of dS, of what this warp group multiplies next
  int dq_parity = 1;

  static constexpr int kBoth = 1, kOwn = 2;  // named barriers

  // This group's channels of dQ = dS K, for 64 queries.
  __device__ void multiply_keys(float (&dq)[32 * kPieces]) {
    shared.ds_full[made.stage].wait(made.parity);
    pin(dq);
    const std::uint32_t ds = operand(shared.ds[made.stage]);
    const std::uint32_t k = operand(shared.k + kFirstPiece * 64 * kKeys, kKeys * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<64 * kPieces>::template multiply<1, 1>(dq, rows16(ds, i), rows16(k, i), i > 0);
    wgmma_commit();
  }

  // ... once it is there.
  __device__ void hand_over_dq(const float (&dq)[32 * kPieces]) {
    shared.ds_empty[made.stage].arrive_by_warps();
    made.advance();
    float4* to = reinterpret_cast<float4*>(shared.dq[kNumber]) + threadIdx.x % kWarpGroup;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      shared.dq_empty[kNumber].wait(dq_parity);
      dq_parity ^= 1;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float* from = dq + 32 * i + 4 * j;
        to[j * kWarpGroup] = make_float4(from[0], from[1], from[2], from[3]);
      }
      fence_async_shared();
      shared.dq_full[kNumber].arrive();
    }
  }

  // P^T, which becomes what is multiplied with dO.
  template <bool kDropout>
  __device__ void probabilities_of(float (&p)[kQueries / 2], const QueryBlocks& t, int head,
                                   int m) {
    const std::int32_t* first_key = this->first_keys(t, m);
    const int largest_first_key = first_key[kQueries - 1];
    shared.q_full[ring.stage].wait(ring.parity);
    this->multiply_rows(p, shared.k, shared.q[ring.stage]);
    wgmma_wait<0>();
    pin(p);
    this->probabilities(p, t, head, m, shared.lse2[ring.stage], first_key, largest_first_key);
    shared.q_empty[ring.stage].arrive();
    shared.p_empty[do_ring.stage].wait(do_ring.parity ^ 1);
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j)
      shared.p[do_ring.stage][j][threadIdx.x % kWarpGroup] =
          make_float4(p[4 * j], p[4 * j + 1], p[4 * j + 2], p[4 * j + 3]);
    shared.p_full[do_ring.stage].arrive();
    if constexpr (kDropout)
      this->each_kept(t, head, m,
                      [&](int i, bool kept) { p[i] = kept ? a.keep.factor * p[i] : 0; });
  }

  // dS^T.
  template <bool kDropout>
  __device__ void gradients_of(float (&ds)[kQueries / 2], const QueryBlocks& t, int head, int m) {
    const int stage = do_ring.stage;
    shared.do_full[stage].wait(do_ring.parity);
    this->template multiply_rows<kValues>(ds, shared.v, shared.d_o[stage]);
    shared.p_full[stage].wait(do_ring.parity);
    wgmma_wait<0>();
    pin(ds);
    float4 p;
    const auto gradient = [&](int i, float dp) {
      if (i % 4 == 0) p = shared.p[stage][i / 4][threadIdx.x % kWarpGroup];
      const float own = i % 4 == 0 ? p.x : i % 4 == 1 ? p.y : i % 4 == 2 ? p.z : p.w;
      ds[i] = own * (dp - shared.delta[stage][this->query_of(i)]);
    };
    if constexpr (kDropout)
      this->each_kept(t, head, m,
                      [&](int i, bool kept) { gradient(i, kept ? a.keep.factor * ds[i] : 0); });
    else
      for_elements([&](int i, int, int) { gradient(i, ds[i]); });
    shared.p_empty[stage].arrive();
    shared.do_empty[stage].arrive();
    do_ring.advance();
  }

  // A step of the first warp group.  Its part of dQ lags one step behind.
  template <bool kDropout>
  __device__ void step_of_dv(const QueryBlocks& t, int head, int m, bool first) {
    std::uint32_t p16[kQueries / 16][4];
    {
      float p[kQueries / 2];
      probabilities_of<kDropout>(p, t, head, m);
      this->pack(p16, p);
    }
    ring.advance();
    const int stage = do_ring.stage;
    shared.do_full[stage].wait(do_ring.parity);
    do_ring.advance();
    pin(sum);
    this->multiply_queries(sum, p16, shared.d_o[stage]);
    wgmma_commit();
    if (first) {
      wgmma_wait<0>();
      pin(sum);
      shared.do_empty[stage].arrive_by_warps();
      return;
    }
    float dq[32 * kPieces];
    multiply_keys(dq);
    wgmma_wait<1>();
    pin(sum);
    shared.do_empty[stage].arrive_by_warps();
    wgmma_wait<0>();
    pin(dq);
    hand_over_dq(dq);
  }

  // A step of the second.
  template <bool kDropout>
  __device__ void step_of_dk(const QueryBlocks& t, int head, int m) {
    std::uint32_t ds16[kQueries / 16][4];
    {
      float ds[kQueries / 2];
      gradients_of<kDropout>(ds, t, head, m);
      this->pack(ds16, ds);
    }
    shared.ds_empty[made.stage].wait(made.parity ^ 1);
    this->write_ds(shared.ds[made.stage], ds16);
    shared.ds_full[made.stage].arrive();
    shared.q_full[ring.stage].wait(ring.parity);
    pin(sum);
    this->multiply_queries(sum, ds16, shared.q[ring.stage]);
    wgmma_commit();
    float dq[32 * kPieces];
    multiply_keys(dq);
    wgmma_wait<1>();
    pin(sum);
    shared.q_empty[ring.stage].arrive_by_warps();
    ring.advance();
    wgmma_wait<0>();
    pin(dq);
    hand_over_dq(dq);
  }

  // The sum to its tensor by way of V's or K's shared memory, zeros by way of dS's.
  __device__ void finish(const QueryBlocks& t) {
    constexpr bool kHasZeros = kNumber == 0 && kValues < kHeadDim;
    bf16* const to = kNumber == 0 ? shared.v : shared.k;
    named_sync(kBoth, 2 * kWarpGroup);  // nobody reads K, V and dS any more
    this->write(sum, kNumber == 0 ? 1 : a.sizes.scale, to, 0);
    if constexpr (kHasZeros) {
      static_assert(kHeadDim - kValues == 64 && kQueries == 64);
      uint4* const zeros = reinterpret_cast<uint4*>(shared.ds[0]);
#pragma unroll
      for (int i = 0; i < kKeys * 64 / 8; i += kWarpGroup)
        zeros[i + threadIdx.x % kWarpGroup] = make_uint4(0, 0, 0, 0);
    }
    fence_async_shared();
    named_sync(kOwn + kNumber, kWarpGroup);
    if (threadIdx.x % kWarpGroup != 0) return;
    this->template store<kNumber == 0 ? kValues : kHeadDim>(kNumber == 0 ? a.dv : a.dk, to, t);
    if constexpr (kHasZeros)
      store_tile(a.dv, shared.ds[0], kValues, 0, t.kv_head, t.key_block * kKeys, t.sequence);
    store_commit();
    store_wait_read();
    shared.kv_empty.arrive();
  }

  template <bool kDropout>
  __device__ void run() {
    for_tiles(shared, a, [&](const QueryBlocks& t, int tile_parity) {
#pragma unroll
      for (float& x : sum) x = 0;
      shared.kv_full.wait(tile_parity);
      bool first = true;
      for_steps(a, t, [&](int head, int m) {
        if constexpr (kNumber == 0)
          step_of_dv<kDropout>(t, head, m, std::exchange(first, false));
        else
          step_of_dk<kDropout>(t, head, m);
      });
      if constexpr (kNumber == 0) {
        float dq[32 * kPieces];
        multiply_keys(dq);
        wgmma_wait<0>();
        pin(dq);
        hand_over_dq(dq);
      }
      finish(t);
    });
    if (threadIdx.x % kWarpGroup == 0) store_wait();
  }
};

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
    give_registers_back<40>();
    if (lane != 0 || warp == 3) return;
    if (warp == 0)
      load_tiles(shared, a);
    else
      add_dq(shared, a, warp - 1);
  } else {
    take_registers<232>();
    if (group == 1) {
      Consumer<Memory, 0> c{{shared, a, 0, warp, lane}};
      c.template run<kDropout>();
    } else {
      Consumer<Memory, 1> c{{shared, a, 0, warp, lane}};
      c.template run<kDropout>();
    }
  }
}

}  // namespace

void attention_backward_wide(const BackwardTensors& tensors, const AttentionShape& s,
                             const Dropout& dropout, void* work, cudaStream_t stream) {
  const auto with = [&]<int kChannels, int kValues>() {
    const auto with_mask = [&]<bool kCausal>() {
      using Memory = Shared<kChannels, kValues, kCausal>;
      static_assert(sizeof(Memory) <= 227 * 1024);
      launch_backward<Memory>(
          dropout.p > 0 ? backward_kernel<Memory, true> : backward_kernel<Memory, false>, tensors,
          s, dropout, work, stream);
    };
    s.causal ? with_mask.template operator()<true>() : with_mask.template operator()<false>();
  };
  if (s.head_dim > 192) return with.template operator()<256, 256>();
  if (s.value_channels() > 128) return with.template operator()<192, 192>();
  with.template operator()<192, 128>();
}

}  // namespace mt::cuda
