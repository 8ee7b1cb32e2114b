// Attention's backward on Hopper for 192 or 256 channels: the second of its three kernels
// (attention_hopper_backward.cuh).  A block holds 64 keys of one key head and walks the queries
// that see them from the last to the first.  Two warp groups share each step's products, since
// neither has the registers for both sums:
//   the first:   S^T = K Q^T, P^T, which it hands on; dV += P^T dO; dQ's first channels
//   the second:  dP^T = V dO^T, dS^T, which it hands on; dK += dS^T Q; dQ's other channels
// dQ = dS K is summed over the blocks in f32 memory in the order of the keys, as with fewer
// channels (attention_hopper_backward.cu).
#include <utility>

#include "kernels/attention_hopper_backward.cuh"

namespace mt::cuda {
namespace {

constexpr int kPiece = BackwardWork::kPiece;

template <int kChannels, bool kLastIsOwn>
struct Shared {
  static constexpr bool kCausal = kLastIsOwn, kCompletesDq = false, kBiased = false;
  static constexpr int kHeadDim = kChannels, kValues = kChannels,
                       kQueries = BackwardWork::queries(kChannels),
                       kKeys = BackwardWork::keys(kChannels, kChannels), kStages = 2;
  static constexpr int kHeadsAtATime = 64, kAdders = 2, kMovingRegisters = 40,
                       kConsumingRegisters = 232;
  // Pieces of 64 channels of dQ that the first warp group makes, and the second.
  static constexpr int kFirstPieces = kHeadDim == 192 ? 1 : 2;
  static constexpr int kOtherPieces = kHeadDim / 64 - kFirstPieces;
  alignas(1024) bf16 k[kKeys * kHeadDim];
  alignas(1024) bf16 v[kKeys * kHeadDim];
  alignas(1024) bf16 q[kStages][kQueries * kHeadDim];
  alignas(1024) bf16 d_o[kQueries * kHeadDim];
  alignas(1024) bf16 ds[2][kKeys * kQueries];
  alignas(1024) float dq[2][kPiece];   // of each warp group
  float4 p[kQueries / 8][kWarpGroup];  // P^T on its way, of each thread
  alignas(128) float lse2[kStages][kQueries], delta[kQueries];
  Barrier kv_full, kv_empty, q_full[kStages], q_empty[kStages], do_full, do_empty;
  Barrier p_full, p_empty, ds_full[2], ds_empty[2], dq_full[2], dq_empty[2], tile_full, tile_empty;
  int tile;

  __device__ void init() {
    kv_full.init(1);
    kv_empty.init(2);
    do_full.init(1);
    do_empty.init(4 + kWarpGroup);  // warps that multiplied, threads that also read themselves
    p_full.init(kWarpGroup);
    p_empty.init(kWarpGroup);
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
  constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  Ring<Memory::kStages> ring{.parity = 1};
  int do_parity = 1;
  load_each_tile(shared, a, [&](const QueryBlocks& t) {
    for_steps(a, t, [&](int head, int m) {
      const std::int64_t rows =
          ((std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m) * kQueries;
      const int in_group = head - t.kv_head * a.sizes.group();
      const auto load = [&](bf16* to, const CUtensorMap& map, float* row_to, const float* row_from,
                            Barrier& full) {
        full.arrive_and_expect(kQueries * (kHeadDim * 2 + 4));
        for (int c = 0; c < kHeadDim; c += 64)
          load_tile(to + c * kQueries, map, full, c, in_group, t.kv_head, m * kQueries, t.sequence);
        load_bytes(row_to, row_from + rows, kQueries * 4, full);
      };
      shared.q_empty[ring.stage].wait(ring.parity);
      load(shared.q[ring.stage], a.q, shared.lse2[ring.stage], a.work.lse2,
           shared.q_full[ring.stage]);
      ring.advance();
      shared.do_empty.wait(do_parity);
      do_parity ^= 1;
      load(shared.d_o, a.d_o, shared.delta, a.work.delta, shared.do_full);
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
      int* const turns = a.work.turns + BackwardWork::kTurns * block + number;
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
  static constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries,
                       kKeys = Memory::kKeys;
  static constexpr int kFirstPiece = kNumber == 0 ? 0 : Memory::kFirstPieces;
  static constexpr int kPieces = kNumber == 0 ? Memory::kFirstPieces : Memory::kOtherPieces;
  float sum[kHeadDim / 2];
  Ring<Memory::kStages> ring{.parity = 0};  // of Q
  Ring<2> made{.parity = 0};                // of dS, of what this warp group multiplies next
  int do_parity = 0, p_parity = kNumber == 0 ? 1 : 0, dq_parity = 1;

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
    shared.p_empty.wait(p_parity);
    p_parity ^= 1;
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j)
      shared.p[j][threadIdx.x % kWarpGroup] =
          make_float4(p[4 * j], p[4 * j + 1], p[4 * j + 2], p[4 * j + 3]);
    shared.p_full.arrive();
    if constexpr (kDropout)
      this->each_kept(t, head, m,
                      [&](int i, bool kept) { p[i] = kept ? a.keep.factor * p[i] : 0; });
  }

  // dS^T.
  template <bool kDropout>
  __device__ void gradients_of(float (&ds)[kQueries / 2], const QueryBlocks& t, int head, int m) {
    shared.do_full.wait(do_parity);
    this->multiply_rows(ds, shared.v, shared.d_o);
    shared.p_full.wait(p_parity);
    p_parity ^= 1;
    wgmma_wait<0>();
    pin(ds);
    float4 p;
    const auto gradient = [&](int i, float dp) {
      if (i % 4 == 0) p = shared.p[i / 4][threadIdx.x % kWarpGroup];
      const float own = i % 4 == 0 ? p.x : i % 4 == 1 ? p.y : i % 4 == 2 ? p.z : p.w;
      ds[i] = own * (dp - shared.delta[this->query_of(i)]);
    };
    if constexpr (kDropout)
      this->each_kept(t, head, m,
                      [&](int i, bool kept) { gradient(i, kept ? a.keep.factor * ds[i] : 0); });
    else
      for_elements([&](int i, int, int) { gradient(i, ds[i]); });
    shared.p_empty.arrive();
    do_parity ^= 1;
    shared.do_empty.arrive();
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
    shared.do_full.wait(do_parity);
    do_parity ^= 1;
    pin(sum);
    this->multiply_queries(sum, p16, shared.d_o);
    wgmma_commit();
    if (first) {
      wgmma_wait<0>();
      pin(sum);
      shared.do_empty.arrive_by_warps();
      return;
    }
    float dq[32 * kPieces];
    multiply_keys(dq);
    wgmma_wait<1>();
    pin(sum);
    shared.do_empty.arrive_by_warps();
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

  // The sum to its tensor by way of V's or K's shared memory.
  __device__ void finish(const QueryBlocks& t) {
    bf16* const to = kNumber == 0 ? shared.v : shared.k;
    named_sync(kBoth, 2 * kWarpGroup);  // nobody reads K and V any more
    this->write(sum, kNumber == 0 ? 1 : a.sizes.scale, to, 0);
    fence_async_shared();
    named_sync(kOwn + kNumber, kWarpGroup);
    if (threadIdx.x % kWarpGroup != 0) return;
    this->store(kNumber == 0 ? a.dv : a.dk, to, t);
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

template <bool kDropout, class Memory>
__device__ void consume(Memory& shared, const BackwardArguments& a, int number, int warp,
                        int lane) {
  if (number == 0) {
    Consumer<Memory, 0> c{{shared, a, 0, warp, lane}};
    c.template run<kDropout>();
  } else {
    Consumer<Memory, 1> c{{shared, a, 0, warp, lane}};
    c.template run<kDropout>();
  }
}

}  // namespace

void attention_backward_wide(const BackwardTensors& tensors, const AttentionShape& s,
                             const Dropout& dropout, void* work, cudaStream_t stream) {
  const auto with = [&]<int kChannels, bool kCausal>() {
    launch_backward<Shared<kChannels, kCausal>>(tensors, s, dropout, work, stream);
  };
  const bool narrow = s.head_dim <= 192;
  if (s.causal)
    narrow ? with.template operator()<192, true>() : with.template operator()<256, true>();
  else
    narrow ? with.template operator()<192, false>() : with.template operator()<256, false>();
}

}  // namespace mt::cuda
