// Attention's backward on Hopper for 192 channels and values of 128, as latent attention's heads
// have them: the second of its three kernels (attention_hopper_backward.cuh).  A block holds 128
// keys of one key head, 64 for each of two consumers, and walks the queries that see them from the
// last to the first:
//   S^T = K Q^T, dP^T = V dO^T, P^T and dS^T in registers; dV += P^T dO, dK += dS^T Q;
//   dS^T through shared memory; dQ = dS K, summed over the blocks in f32 memory in the order of the
//   keys, as with fewer channels (attention_hopper_backward.cu).
// The sums of dK and dV take 160 of a thread's 240 registers, so that P^T is kept as dV has it, in
// bf16, until dS^T is made of it, and one piece of dQ, of 64 channels, is made at a time: of every
// block of queries each consumer makes one, and the two make the third by turns.
#include "kernels/attention_hopper_backward.cuh"

namespace mt::cuda {
namespace {

constexpr int kPiece = BackwardWork::kPiece;
constexpr int kPieces = BackwardWork::pieces(192);
static_assert(kPieces == 3);

template <bool kLastIsOwn>
struct Shared {
  static constexpr bool kCausal = kLastIsOwn, kCompletesDq = false, kBiased = false;
  static constexpr int kHeadDim = 192, kValues = 128, kQueries = BackwardWork::queries(kHeadDim),
                       kKeys = BackwardWork::keys(kHeadDim, kValues), kStages = 2;
  // Four blocks of keys of each of 33 heads are as many as an H100 or H200 has multiprocessors.
  static constexpr int kHeadsAtATime = kCausal ? 33 : 16, kAdders = kPieces, kMovingRegisters = 24,
                       kConsumingRegisters = 240;
  alignas(1024) bf16 k[kKeys * kHeadDim];
  alignas(1024) bf16 v[kKeys * kValues];
  alignas(1024) bf16 q[kStages][kQueries * kHeadDim];
  alignas(1024) bf16 d_o[kStages][kQueries * kValues];
  alignas(1024) bf16 ds[2][kKeys * kQueries];  // dS^T of a step, 64 queries a row
  alignas(1024) float dq[2][kPiece];           // of each consumer
  alignas(128) float lse2[kStages][kQueries], delta[kStages][kQueries];
  Barrier kv_full, kv_empty, q_full[kStages], q_empty[kStages], do_full[kStages], do_empty[kStages];
  Barrier ds_full[2], ds_empty[2], dq_full[2], third_full[2], dq_empty[2], tile_full, tile_empty;
  int tile;

  __device__ void init() {
    kv_full.init(1);
    kv_empty.init(2);
    for (int i = 0; i < 2; ++i) {
      q_full[i].init(1);
      do_full[i].init(1);
      q_empty[i].init(2 * kWarpGroup);
      do_empty[i].init(2 * kWarpGroup);
      ds_full[i].init(2 * kWarpGroup);
      ds_empty[i].init(8);
      dq_full[i].init(kWarpGroup);
      third_full[i].init(kWarpGroup);
      dq_empty[i].init(1);
    }
    tile_full.init(1);
    tile_empty.init(2 * kWarpGroup + 3);
    fence_barrier_init();
  }
};

template <class Memory>
__device__ void load_tiles(Memory& shared, const BackwardArguments& a) {
  constexpr int kQueries = Memory::kQueries;
  Ring<Memory::kStages> ring{.parity = 1};
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
      shared.do_empty[ring.stage].wait(ring.parity);
      load(shared.d_o[ring.stage], a.d_o, Memory::kValues, shared.delta[ring.stage], a.work.delta,
           shared.do_full[ring.stage]);
      ring.advance();
    });
  });
}

// Adds a piece of the steps' dQ to memory: one thread for each, so that others hear of a step's
// before the next one's comes.
template <class Memory>
__device__ void add_dq(Memory& shared, const BackwardArguments& a, int piece) {
  unsigned parities = 0;  // a bit for each consumer
  for_tiles(shared, a, [&](const QueryBlocks& t, int) {
    for_steps(a, t, [&](int head, int m) {
      const int number = piece < 2 ? piece : m % 2;
      const std::int64_t block =
          (std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m;
      int* const turns = a.work.turns + BackwardWork::kTurns * block + piece;
      float* const to = a.work.dq + (block * kPieces + piece) * kPiece;
      const int before = key_blocks_before<Memory>(a, t, m);
      if (before > 0) wait_for(turns, before);
      (piece < 2 ? shared.dq_full : shared.third_full)[number].wait(parities >> number & 1);
      parities ^= 1u << number;
      if (before > 0)
        add_floats(to, shared.dq[number], sizeof(shared.dq[number]));
      else
        store_bytes(to, shared.dq[number], sizeof(shared.dq[number]));
      store_commit();
      store_wait_read();
      shared.dq_empty[number].arrive();
      store_wait();
      publish(turns, before + 1);
    });
  });
}

template <class Memory>
struct Consumer : BackwardRows<Memory> {
  using Rows = BackwardRows<Memory>;
  using Rows::a, Rows::first_row, Rows::for_elements, Rows::shared;
  static constexpr int kHeadDim = Memory::kHeadDim, kValues = Memory::kValues,
                       kQueries = Memory::kQueries, kKeys = Memory::kKeys;
  const int number;
  float dk[kHeadDim / 2], dv[kValues / 2];
  Ring<Memory::kStages> ring{.parity = 0};       // of Q and dO
  Ring<2> made{.parity = 1}, read{.parity = 0};  // of dS, to be written and to be multiplied
  int dq_parity = 1;

  static constexpr int kBoth = 1, kOwn = 2;  // named barriers

  // dq = dS K over all keys, for a piece of the channels.
  __device__ void multiply_keys(float (&dq)[32], int piece) {
    pin(dq);
    const std::uint32_t ds = operand(shared.ds[read.stage]),
                        k = operand(shared.k + piece * kKeys * 64);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<64>::template multiply<1, 1>(dq, rows16(ds, i), rows16(k, i), i > 0);
    wgmma_commit();
  }

  __device__ void hand_over_dq(const float (&dq)[32], Barrier& full) {
    shared.dq_empty[number].wait(dq_parity);
    dq_parity ^= 1;
    float4* to = reinterpret_cast<float4*>(shared.dq[number]) + threadIdx.x % kWarpGroup;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      to[j * kWarpGroup] = make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
    fence_async_shared();
    full.arrive();
  }

  // An element of P^T, as dV has it.
  static __device__ float probability(const std::uint32_t (&p16)[kQueries / 16][4], int i) {
    const std::uint32_t pair = p16[i / 8][i % 8 / 2];
    return __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000);
  }

  // dS^T in the place of dP^T.
  template <bool kDropout>
  __device__ void gradients(const std::uint32_t (&p16)[kQueries / 16][4], float (&ds)[kQueries / 2],
                            const QueryBlocks& t, int head, int m) {
    if constexpr (kDropout)
      this->each_kept(t, head, m,
                      [&](int i, bool kept) { ds[i] = kept ? a.keep.factor * ds[i] : 0; });
    for_elements([&](int i, int, int query) {
      ds[i] = probability(p16, i) * (ds[i] - shared.delta[ring.stage][query]);
    });
  }

  // dV += P^T dO, but for the factor of dropout, which dV is multiplied with in the end.
  template <bool kDropout>
  __device__ void add_dv(std::uint32_t (&p16)[kQueries / 16][4], const QueryBlocks& t, int head,
                         int m) {
    if constexpr (kDropout)
      this->each_kept(t, head, m, [&](int i, bool kept) {
        if (!kept) p16[i / 8][i % 8 / 2] &= i % 2 == 0 ? 0xffff0000 : 0xffff;
      });
    pin(dv);
    this->multiply_queries(dv, p16, shared.d_o[ring.stage]);
    wgmma_commit();
  }

  // dK += dS^T Q, from the consumer's own rows of the buffer.
  __device__ void add_dk(int from) {
    pin(dk);
    const std::uint32_t ds = operand(shared.ds[from] + first_row * 64),
                        q = operand(shared.q[ring.stage], kQueries * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kQueries / 16; ++i)
      Wgmma<kHeadDim>::template multiply<0, 1>(dk, columns16(ds, i, kKeys), rows16(q, i), true);
    wgmma_commit();
  }

  // dQ of the step before, of the m-th queries: it lags so that neither consumer waits for the
  // other's dS.
  __device__ void make_dq(int m) {
    float dq[32];
    shared.ds_full[read.stage].wait(read.parity);
    multiply_keys(dq, number);
    wgmma_wait<0>();
    pin(dq);
    hand_over_dq(dq, shared.dq_full[number]);
    if (m % 2 == number) {
      multiply_keys(dq, 2);
      wgmma_wait<0>();
      pin(dq);
      hand_over_dq(dq, shared.third_full[number]);
    }
    shared.ds_empty[read.stage].arrive_by_warps();
    read.advance();
  }

  // What a step leaves to the next: its dK is there.
  __device__ void finish_dk() {
    pin(dk);
    shared.q_empty[ring.stage ^ 1].arrive();
  }

  // A step.
  template <bool kDropout>
  __device__ void step(const QueryBlocks& t, int head, int m, bool first) {
    std::uint32_t p16[kQueries / 16][4];
    {
      float p[kQueries / 2];
      shared.q_full[ring.stage].wait(ring.parity);
      this->multiply_rows(p, shared.k, shared.q[ring.stage]);
      wgmma_wait<1>();
      if (!first) finish_dk();
      const std::int32_t* first_key = this->first_keys(t, m);
      const int largest_first_key = first_key[kQueries - 1];
      wgmma_wait<0>();
      pin(p);
      this->probabilities(p, t, head, m, shared.lse2[ring.stage], first_key, largest_first_key);
      this->pack(p16, p);
    }
    {
      float ds[kQueries / 2];
      shared.do_full[ring.stage].wait(ring.parity);
      this->template multiply_rows<kValues>(ds, shared.v, shared.d_o[ring.stage]);
      if constexpr (kDropout) {
        wgmma_wait<0>();
      } else {
        add_dv<false>(p16, t, head, m);
        wgmma_wait<1>();
      }
      pin(ds);
      gradients<kDropout>(p16, ds, t, head, m);
      std::uint32_t ds16[kQueries / 16][4];
      this->pack(ds16, ds);
      shared.ds_empty[made.stage].wait(made.parity);
      this->write_ds(shared.ds[made.stage], ds16);
    }
    shared.ds_full[made.stage].arrive();
    if constexpr (kDropout) add_dv<true>(p16, t, head, m);
    named_sync(kOwn + number, kWarpGroup);
    wgmma_wait<0>();
    pin(dv);
    shared.do_empty[ring.stage].arrive();
    if (!first) make_dq(m == t.end - 1 ? t.begin : m + 1);
    add_dk(made.stage);
    made.advance();
    ring.advance();
  }

  // dK and dV to the tensors by way of K's and V's shared memory, zeros by way of dS's.
  __device__ void finish(const QueryBlocks& t) {
    named_sync(kBoth, 2 * kWarpGroup);  // nobody reads K and dS any more
    this->write(dv, a.keep.factor, shared.v, first_row);
    this->write(dk, a.sizes.scale, shared.k, first_row);
    static_assert(kHeadDim - kValues == 64 && kQueries == 64);
    bf16* const zeros = shared.ds[0] + first_row * 64;
#pragma unroll
    for (int i = 0; i < 64 * 64 / 8; i += kWarpGroup)
      reinterpret_cast<uint4*>(zeros)[i + threadIdx.x % kWarpGroup] = make_uint4(0, 0, 0, 0);
    fence_async_shared();
    named_sync(kOwn + number, kWarpGroup);
    if (threadIdx.x % kWarpGroup != 0) return;
    this->template store<kValues>(a.dv, shared.v, t);
    store_tile(a.dv, zeros, kValues, 0, t.kv_head, t.key_block * kKeys + first_row, t.sequence);
    this->store(a.dk, shared.k, t);
    store_commit();
    store_wait_read();
    shared.kv_empty.arrive();
  }

  template <bool kDropout>
  __device__ void run() {
    for_tiles(shared, a, [&](const QueryBlocks& t, int tile_parity) {
#pragma unroll
      for (float& x : dk) x = 0;
#pragma unroll
      for (float& x : dv) x = 0;
      shared.kv_full.wait(tile_parity);
      bool first = true;  // every key is seen by a query, so there is a step
      for_steps(a, t, [&](int head, int m) {
        step<kDropout>(t, head, m, first);
        first = false;
      });
      wgmma_wait<0>();
      finish_dk();
      make_dq(t.begin);
      finish(t);
    });
    if (threadIdx.x % kWarpGroup == 0) store_wait();
  }
};

template <bool kDropout, class Memory>
__device__ void consume(Memory& shared, const BackwardArguments& a, int number, int warp,
                        int lane) {
  Consumer<Memory> c{{shared, a, number * 64, warp, lane}, number};
  c.template run<kDropout>();
}

}  // namespace

void attention_backward_latent(const BackwardTensors& tensors, const AttentionShape& s,
                               const Dropout& dropout, void* work, cudaStream_t stream) {
  s.causal ? launch_backward<Shared<true>>(tensors, s, dropout, work, stream)
           : launch_backward<Shared<false>>(tensors, s, dropout, work, stream);
}

}  // namespace mt::cuda
