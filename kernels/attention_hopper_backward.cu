// Attention's backward on Hopper, up to 128 channels: the second of its three kernels
// (attention_hopper_backward.cuh), which makes dK and dV and sums dQ in f32.  A block holds 128
// keys of one key head, 64 for each of two consumers, and walks the queries that see them from the
// last to the first:
//   S^T = K Q^T, dP^T = V dO^T, P^T and dS^T in registers; dV += P^T dO, dK += dS^T Q;
//   dS^T through shared memory; dQ = dS K, summed over the blocks in f32 memory, and where causal
//   rounded by the last of them.  Where a head's queries are in parts (BackwardWork::parts), so
//   are the sums of dK and dV, in f32 memory too.
// The sums of dQ are added in the order of the keys, each block waiting for the one before, so that
// results do not depend on timing.  Blocks of one head advance through the queries one behind the
// other, and hardly ever wait (cf. Dao: arXiv:2307.08691, 3.2; Shah et al.: arXiv:2407.08608).
#include "kernels/attention_hopper_backward.cuh"

namespace mt::cuda {
namespace {

constexpr int kKeys = BackwardWork::keys(128, 128), kHalf = kKeys / 2;  // of a block, of a consumer
constexpr int kPiece = BackwardWork::kPiece;

template <int kChannels, bool kLastIsOwn, bool kHasBias>
struct Shared {
  static constexpr bool kCausal = kLastIsOwn, kCompletesDq = kLastIsOwn, kBiased = kHasBias;
  static constexpr int kHeadDim = kChannels, kValues = kChannels,
                       kQueries = BackwardWork::queries(kChannels),
                       kKeys = BackwardWork::keys(kChannels, kValues), kStages = 2;
  static constexpr int kHeadsAtATime = 64, kAdders = 2, kMovingRegisters = 24,
                       kConsumingRegisters = 240;
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
    kv_empty.init(2 * kWarpGroup);
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

template <class Memory>
__device__ void load_tiles(Memory& shared, const BackwardArguments& a) {
  constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  Ring<Memory::kStages> ring{.parity = 1};
  load_each_tile(shared, a, [&](const QueryBlocks& t) {
    for_steps(a, t, [&](int head, int m) {
      const std::int64_t rows =
          ((std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m) * kQueries;
      const int in_group = head - t.kv_head * a.sizes.group();
      Barrier& q_full = shared.q_full[ring.stage];
      shared.q_empty[ring.stage].wait(ring.parity);
      q_full.arrive_and_expect(kQueries * (kHeadDim * 2 + 4));
      for (int c = 0; c < kHeadDim; c += 64)
        load_tile(shared.q[ring.stage] + c * kQueries, a.q, q_full, c, in_group, t.kv_head,
                  m * kQueries, t.sequence);
      load_bytes(shared.lse2[ring.stage], a.work.lse2 + rows, kQueries * 4, q_full);

      Barrier& do_full = shared.do_full[ring.stage];
      shared.do_empty[ring.stage].wait(ring.parity);
      do_full.arrive_and_expect(kQueries * (kHeadDim * 2 + 4));
      for (int c = 0; c < kHeadDim; c += 64)
        load_tile(shared.d_o[ring.stage] + c * kQueries, a.d_o, do_full, c, in_group, t.kv_head,
                  m * kQueries, t.sequence);
      load_bytes(shared.delta[ring.stage], a.work.delta + rows, kQueries * 4, do_full);
      ring.advance();
    });
  });
}

// Adds dQ of the steps to memory.  Two threads take turns, so that one waits for its sums to arrive
// while the other's are on their way.
template <class Memory>
__device__ void add_dq(Memory& shared, const BackwardArguments& a, int number) {
  int parity = 0, turn = 0;
  for_tiles(shared, a, [&](const QueryBlocks& t, int) {
    for_steps(a, t, [&](int head, int m) {
      if (completes_dq<Memory>(a, t, m)) return;
      turn ^= 1;
      if (turn == number) return;
      const std::int64_t block =
          (std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m;
      int* const turns = a.work.turns + BackwardWork::kTurns * block;
      float* const to = a.work.dq + block * 2 * kPiece;
      const int before = key_blocks_before<Memory>(a, t, m);
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
  });
}

template <class Memory>
struct Consumer : BackwardRows<Memory> {
  using Rows = BackwardRows<Memory>;
  using Rows::a, Rows::first_row, Rows::for_elements, Rows::shared;
  static constexpr int kHeadDim = Memory::kHeadDim, kQueries = Memory::kQueries;
  static constexpr bool kByQueries = kQueries == 128;  // whether dQ is shared by queries
  const int number;
  float dk[kHeadDim / 2], dv[kHeadDim / 2];
  Ring<Memory::kStages> ring{.parity = 0};  // of what is to come
  int dq_parity = 1;
  int buffer = 0;    // of the next dS
  int handover = 0;  // which pair of named barriers comes next

  static constexpr int kHandover = 1, kBoth = 5, kOwn = 6;  // named barriers

  // dq = dS K over all keys, from the buffer of both consumers: of the 64 x 64 pieces, one for 64
  // of the queries, or of the channels.
  __device__ void multiply_keys(float (&dq)[32], int from) {
    named_sync(kHandover + 2 * (1 - number) + handover, 2 * kWarpGroup);  // the other's dS
    handover ^= 1;
    pin(dq);
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

  // Where no block of keys after this one meets the queries: what those before have summed and this
  // one's, to the tensor.
  __device__ void finish_dq(float (&dq)[32], const QueryBlocks& t, int head, int m) {
    const std::int64_t block =
        (std::int64_t{t.sequence} * a.sizes.heads + head) * a.query_blocks + m;
    const int thread = threadIdx.x % kWarpGroup, before = key_blocks_before<Memory>(a, t, m);
    if (before > 0) {
      if (thread == 0) wait_for(a.work.turns + BackwardWork::kTurns * block, before);
      named_sync(kOwn + number, kWarpGroup);
      const float4* from =
          reinterpret_cast<const float4*>(a.work.dq + (2 * block + number) * kPiece) + thread;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float4 x = __ldcg(from + j * kWarpGroup);
        dq[4 * j] += x.x, dq[4 * j + 1] += x.y, dq[4 * j + 2] += x.z, dq[4 * j + 3] += x.w;
      }
    }
    shared.dq_empty.wait(dq_parity);  // what was handed over last has been read
    bf16* const to = reinterpret_cast<bf16*>(shared.dq[number]);
    this->write(dq, a.sizes.scale, to, 0);
    fence_async_shared();
    named_sync(kOwn + number, kWarpGroup);
    if (thread == 0) {
      store_tile(a.dq, to, kByQueries ? 0 : number * 64, head - t.kv_head * a.sizes.group(),
                 t.kv_head, m * kQueries + (kByQueries ? number * 64 : 0), t.sequence);
      store_commit();
      store_wait_read();
    }
    named_sync(kOwn + number, kWarpGroup);
  }

  // dS^T into `ds` from P^T and dP^T; P^T becomes what was multiplied with V, but for the factor of
  // dropout, which dV is multiplied with in the end.
  template <bool kDropout>
  __device__ void gradients(float (&p)[kQueries / 2], float (&ds)[kQueries / 2],
                            const QueryBlocks& t, int head, int m) {
    if constexpr (kDropout) {
      this->each_kept(t, head, m, [&](int i, bool kept) {
        const float dp = kept ? ds[i] : 0;
        ds[i] = p[i] * (a.keep.factor * dp - shared.delta[ring.stage][this->query_of(i)]);
        p[i] = kept ? p[i] : 0;
      });
    } else {
      for_elements(
          [&](int i, int, int query) { ds[i] = p[i] * (ds[i] - shared.delta[ring.stage][query]); });
    }
  }

  // A step.  dQ lags one step behind, so that neither consumer waits for the other's dS.
  template <bool kDropout, bool kFirst>
  __device__ void step(const QueryBlocks& t, int head, int m) {
    float p[kQueries / 2], ds[kQueries / 2];
    shared.q_full[ring.stage].wait(ring.parity);
    this->multiply_rows(p, shared.k, shared.q[ring.stage]);
    shared.do_full[ring.stage].wait(ring.parity);
    this->multiply_rows(ds, shared.v, shared.d_o[ring.stage]);
    const std::int32_t* first_key = this->first_keys(t, m);
    const int largest_first_key = first_key[kQueries - 1];
    wgmma_wait<1>();
    pin(p);
    this->probabilities(p, t, head, m, shared.lse2[ring.stage], first_key, largest_first_key);
    wgmma_wait<0>();
    pin(ds);
    gradients<kDropout>(p, ds, t, head, m);
    std::uint32_t p16[kQueries / 16][4], ds16[kQueries / 16][4];
    this->pack(p16, p);
    this->pack(ds16, ds);
    this->write_ds(shared.ds[buffer], ds16);

    float dq[32];
    if constexpr (!kFirst) multiply_keys(dq, (buffer + 2) % 3);
    pin(dv);
    pin(dk);
    this->multiply_queries(dv, p16, shared.d_o[ring.stage]);
    this->multiply_queries(dk, ds16, shared.q[ring.stage]);
    wgmma_commit();
    if constexpr (!kFirst) {
      wgmma_wait<1>();
      pin(dq);
    }
    hand_over_ds();
    if constexpr (!kFirst) {
      const bool new_head = m == t.end - 1;
      const int m_before = new_head ? t.begin : m + 1;
      if (completes_dq<Memory>(a, t, m_before))
        finish_dq(dq, t, new_head ? head - 1 : head, m_before);
      else
        hand_over_dq(dq);
    }
    wgmma_wait<0>();
    pin(dv);
    pin(dk);
    shared.q_empty[ring.stage].arrive();
    shared.do_empty[ring.stage].arrive();
    ring.advance();
    buffer = (buffer + 1) % 3;
  }

  // A part's sums, in the order of finish_backward.
  __device__ void store_part(const QueryBlocks& t) {
    const std::int64_t block =
        (std::int64_t{t.sequence} * a.sizes.kv_heads + t.kv_head) * a.order.per_head + t.key_block;
    const std::int64_t all = std::int64_t{a.sizes.sequences} * a.sizes.kv_heads * a.order.per_head;
    constexpr std::int64_t kBlock = kKeys * kHeadDim;
    const auto store = [&](const float(&sums)[kHeadDim / 2], int which, float factor) {
      float4* const to = reinterpret_cast<float4*>(
          a.work.dkv + ((2 * t.part + which) * all + block) * kBlock + number * kBlock / 2);
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i)
        to[i * kWarpGroup + threadIdx.x % kWarpGroup] =
            make_float4(factor * sums[4 * i], factor * sums[4 * i + 1], factor * sums[4 * i + 2],
                        factor * sums[4 * i + 3]);
    };
    store(dk, 0, 1);
    store(dv, 1, a.keep.factor);
    shared.kv_empty.arrive();
  }

  // dK and dV to the tensors by way of shared memory: K's and V's, or where it is large enough that
  // of the last dS but one, so that the next K and V are on their way meanwhile.
  __device__ void finish(const QueryBlocks& t) {
    if (!Memory::kCausal && a.parts > 1) return store_part(t);
    constexpr bool kApart = kQueries >= 2 * kHeadDim;
    bf16* const to_v = kApart ? shared.ds[(buffer + 1) % 3] : shared.v;
    bf16* const to_k = kApart ? to_v + kKeys * kHeadDim : shared.k;
    if (kApart)
      shared.kv_empty.arrive();
    else
      named_sync(kBoth, 2 * kWarpGroup);  // the other reads K no more
    this->write(dv, a.keep.factor, to_v, first_row);
    this->write(dk, a.sizes.scale, to_k, first_row);
    fence_async_shared();
    named_sync(kOwn + number, kWarpGroup);
    if (threadIdx.x % kWarpGroup == 0) {
      this->store(a.dv, to_v, t);
      this->store(a.dk, to_k, t);
      store_commit();
      store_wait_read();
    }
    if (kApart)
      named_sync(kOwn + number, kWarpGroup);
    else
      shared.kv_empty.arrive();
  }

  template <bool kDropout>
  __device__ void run() {
    for_tiles(shared, a, [&](const QueryBlocks& t, int tile_parity) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) dk[i] = dv[i] = 0;
      handover = 0;
      shared.kv_full.wait(tile_parity);
      // Every key is seen by a query, so there is a first step.
      step<kDropout, true>(t, t.kv_head * a.sizes.group(), t.end - 1);
      for (int g = 0; g < a.sizes.group(); ++g)
        for (int m = t.end - (g == 0 ? 2 : 1); m >= t.begin; --m)
          step<kDropout, false>(t, t.kv_head * a.sizes.group() + g, m);
      float dq[32];
      multiply_keys(dq, (buffer + 2) % 3);
      wgmma_wait<0>();
      pin(dq);
      if constexpr (Memory::kCausal) {
        finish(t);
        finish_dq(dq, t, (t.kv_head + 1) * a.sizes.group() - 1, t.begin);
      } else {
        hand_over_dq(dq);
        finish(t);
      }
    });
    if (threadIdx.x % kWarpGroup == 0) store_wait();
  }
};

template <bool kDropout, class Memory>
__device__ void consume(Memory& shared, const BackwardArguments& a, int number, int warp,
                        int lane) {
  Consumer<Memory> c{{shared, a, number * kHalf, warp, lane}, number};
  c.template run<kDropout>();
}

}  // namespace

std::size_t hopper::attention_backward_work(const AttentionShape& shape) {
  return BackwardWork().cut(shape, nullptr);
}

void hopper::attention_backward(bf16* dq, bf16* dk, bf16* dv, const bf16* d_o, const bf16* o,
                                const float* lse, const bf16* q, const bf16* k, const bf16* v,
                                const std::int32_t* first_key, const AttentionShape& s,
                                const Dropout& dropout, void* work, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const BackwardTensors tensors{dq, dk, dv, d_o, o, lse, q, k, v, first_key};
  if (BackwardWork::latent(s.head_dim, s.value_channels()))
    return attention_backward_latent(tensors, s, dropout, work, stream);
  if (s.head_dim > 128) return attention_backward_wide(tensors, s, dropout, work, stream);
  const auto with = [&]<int kChannels, bool kCausal>() {
    const auto with_bias = [&]<bool kBiased>() {
      launch_backward<Shared<kChannels, kCausal, kBiased>>(tensors, s, dropout, work, stream);
    };
    s.bias ? with_bias.template operator()<true>() : with_bias.template operator()<false>();
  };
  const bool narrow = s.head_dim <= 64;
  if (s.causal)
    narrow ? with.template operator()<64, true>() : with.template operator()<128, true>();
  else
    narrow ? with.template operator()<64, false>() : with.template operator()<128, false>();
}

}  // namespace mt::cuda
