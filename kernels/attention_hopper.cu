// Attention's forward on Hopper.  A block holds 64 queries of one head for each of its consumers, a
// warp group each, and walks the keys they see from the last to the first; one more warp group,
// the producer, brings tiles of Q, K and V into shared memory.  A consumer multiplies Q with the
// next keys while the scalar units work on the softmax of the last ones, and consumers take turns
// at the matrix units (Shah et al., FlashAttention-3: arXiv:2407.08608).  Exponentials are relative
// to a row's running maximum (arXiv:1805.02867).  Blocks stay and take tile after tile, long ones
// first.
#include <algorithm>

#include "kernels/attention_hopper.cuh"
#include "kernels/persistent.cuh"
#include "kernels/wgmma.cuh"

namespace mt::cuda {
namespace {

template <int kChannels, int kOfValues, int kTileKeys, int kWarpGroups, bool kLastIsOwn,
          bool kHasBias>
struct Shared {
  static constexpr bool kCausal = kLastIsOwn, kBiased = kHasBias;
  static constexpr int kHeadDim = kChannels, kValues = kOfValues;  // channels, but for zeros
  static constexpr int kKeys = kTileKeys, kConsumers = kWarpGroups;
  static constexpr int kQueries = 64 * kConsumers, kStages = 2;
  static constexpr bool kOwnOutput = kHeadDim <= 128;  // else o takes the place of Q
  alignas(1024) bf16 q[kQueries * kHeadDim];
  alignas(1024) bf16 k[kStages][kKeys * kHeadDim];
  alignas(1024) bf16 v[kStages][kKeys * kValues];
  alignas(1024) bf16 own_o[kOwnOutput ? kQueries * kHeadDim : 64];
  Barrier q_full, q_empty, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  Barrier tile_full, tile_empty;
  int tile;  // that the block works on; past the last: none

  __device__ bf16* o() { return kOwnOutput ? own_o : q; }

  __device__ void init() {
    q_full.init(1);
    q_empty.init(kOwnOutput ? 4 * kConsumers : kConsumers);
    for (int i = 0; i < kStages; ++i) {
      k_full[i].init(1);
      v_full[i].init(1);
      k_empty[i].init(4 * kConsumers);
      v_empty[i].init(4 * kConsumers);
    }
    tile_full.init(1);
    tile_empty.init(kConsumers * kWarpGroup);
    fence_barrier_init();
  }
};

struct Arguments {
  CUtensorMap q, k, v, o;
  float* lse;
  int* next_tile;
  AttentionSizes sizes;
  TileOrder order;
  KeepRule keep;
};

// The tiles [begin, end) of the keys that a tile's queries see.
struct KeyTiles {
  int begin, end, sequence, head, first_query;
};
template <class Memory>
__device__ KeyTiles key_tiles(const Arguments& a, int tile) {
  const auto [m, head] = a.order.at(tile);
  const int first_query = (a.order.per_head - 1 - m) * Memory::kQueries;  // the longest first
  const int sequence = head / a.sizes.heads;
  const AttentionSizes s = a.sizes.masked<Memory::kCausal>(sequence);
  const int last = min(s.last(sequence, first_query + Memory::kQueries - 1), s.kv_length - 1);
  return {s.first(sequence, first_query) / Memory::kKeys, last / Memory::kKeys + 1, sequence,
          head % s.heads, first_query};
}

template <class Memory>
__device__ void produce(Memory& shared, const Arguments& a) {
  Ring<Memory::kStages> ring{.parity = 1};
  int parity = 1, q_parity = 1;
  const auto load = [](bf16* to, const CUtensorMap& map, Barrier& full, int rows, int channels,
                       int head, int group, int row, int sequence) {
    full.arrive_and_expect(rows * channels * 2);
    for (int c = 0; c < channels; c += 64)
      load_tile(to + c * rows, map, full, c, head, group, row, sequence);
  };
  for (int tile = blockIdx.x;; parity ^= 1) {
    shared.tile_empty.wait(parity);
    shared.tile = tile;
    shared.tile_full.arrive();
    if (tile >= a.order.size()) return;
    const KeyTiles t = key_tiles<Memory>(a, tile);
    const int kv_head = t.head / a.sizes.group();
    tile = gridDim.x + atomicAdd(a.next_tile, 1);

    // V comes one tile behind K, as the consumers need them.
    Ring<Memory::kStages> behind = ring;
    for (int n = t.end - 1; n >= t.begin - 1; --n) {
      if (n >= t.begin) {
        shared.k_empty[ring.stage].wait(ring.parity);
        load(shared.k[ring.stage], a.k, shared.k_full[ring.stage], Memory::kKeys, Memory::kHeadDim,
             0, kv_head, n * Memory::kKeys, t.sequence);
      }
      if (n == t.end - 1) {
        shared.q_empty.wait(q_parity);
        q_parity ^= 1;
        load(shared.q, a.q, shared.q_full, Memory::kQueries, Memory::kHeadDim,
             t.head - kv_head * a.sizes.group(), kv_head, t.first_query, t.sequence);
      }
      if (n < t.end - 1) {
        shared.v_empty[behind.stage].wait(behind.parity);
        load(shared.v[behind.stage], a.v, shared.v_full[behind.stage], Memory::kKeys,
             Memory::kValues, 0, kv_head, (n + 1) * Memory::kKeys, t.sequence);
        behind.advance();
      }
      if (n >= t.begin) ring.advance();
    }
  }
}

// A consumer's part of a tile: 64 queries, of which each thread holds parts of two rows, r and
// r + 8.  Scores are in the order of wgmma.cuh.
template <class Memory>
struct Consumer {
  static constexpr int kHeadDim = Memory::kHeadDim, kValues = Memory::kValues,
                       kKeys = Memory::kKeys;
  Memory& shared;
  const Arguments& a;
  const int number, warp, lane;
  float scores[kKeys / 2], o[kValues / 2];
  std::uint32_t p[kKeys / 16][4];                // probabilities, to be multiplied with V
  float max[2], sum[2], rescale[2];              // of the rows
  int row, first_key[2], last_key[2], sequence;  // of the thread's first row; of the rows

  __device__ void multiply_keys(int stage) {  // scores = Q K^T
    pin(scores);
    const std::uint32_t q = operand(shared.q + number * 64 * 64), k = operand(shared.k[stage]);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i)
      Wgmma<kKeys>::template multiply<0, 0>(scores, columns16(q, i, Memory::kQueries),
                                            columns16(k, i, kKeys), i > 0);
    wgmma_commit();
  }

  __device__ void multiply_values(int stage) {  // o += P V
    pin(o);
    const std::uint32_t v = operand(shared.v[stage], kKeys * 128);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<kValues>::template multiply<1>(o, p[i], rows16(v, i));
    wgmma_commit();
  }

  // f(element, row 0 or 1, column within the tile) for each score.
  template <class F>
  __device__ void for_scores(const F& f) {
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int x = 0; x < 4; ++x) f(scores[4 * j + x], x / 2, 8 * j + lane % 4 * 2 + x % 2);
  }

  __device__ void mask(int n) {
    for_scores([&](float& score, int r, int column) {
      const int key = n * kKeys + column;
      if (key < first_key[r] || key > last_key[r]) score = -kInfinity;
    });
  }

  // The largest of `largest` and of a row's scores that this thread has.  Hopper finds it among
  // three integers at once.  The bits of numbers from 0 on, as integers, are in the order of the
  // numbers, those of numbers below are less and in the opposite order.
  __device__ float largest_of(float largest, int r) const {
    int above = __float_as_int(largest);
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
      above = __vimax3_s32(above, __float_as_int(scores[4 * j + 2 * r]),
                           __float_as_int(scores[4 * j + 2 * r + 1]));
    if (above >= 0) return __int_as_float(above);
    std::uint32_t below = __float_as_uint(largest);
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
      below = __vimin3_u32(below, __float_as_uint(scores[4 * j + 2 * r]),
                           __float_as_uint(scores[4 * j + 2 * r + 1]));
    return __uint_as_float(below);
  }

  // What scores are still to be multiplied with.
  __device__ float scale() const { return Memory::kBiased ? 1 : a.sizes.scale; }

  // Scores become scaled, with their bias added: the same in the second row as in the first of a
  // key eight places before.
  __device__ void add_bias(int n, int head) {
    const auto bias = a.sizes.head_bias(head);
    const int first = n * kKeys + lane % 4 * 2 - a.sizes.masked<Memory::kCausal>(sequence).own(row);
    float before[2] = {bias.at(first - 8), bias.at(first - 7)};
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const float here = bias.at(first + 8 * j + x);
        scores[4 * j + x] = fmaf(scores[4 * j + x], a.sizes.scale, here);
        scores[4 * j + 2 + x] = fmaf(scores[4 * j + 2 + x], a.sizes.scale, before[x]);
        before[x] = here;
      }
  }

  // Scores become exp(score - max) with the rows' new maxima; what was summed before has to be
  // multiplied with `rescale`.
  __device__ void softmax(int n, int head) {
    if constexpr (Memory::kBiased) add_bias(n, head);
    const float scale = this->scale() * kLog2e;
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float next = largest_of(max[r], r);
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 1));
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 2));
      base[r] = next == -kInfinity ? 0 : next * scale;  // a row may see no key of this tile
      rescale[r] = exp2_approx(max[r] * scale - base[r]);
      max[r] = next;
      sum[r] *= rescale[r];
    }
    for_scores([&](float& score, int r, int) {
      score = exp2_approx(fmaf(score, scale, -base[r]));
      sum[r] += score;
    });
  }

  // What is kept is multiplied with its factor in the end.
  template <bool kDropout>
  __device__ void pack(int n, int head) {
    if constexpr (kDropout) {
      const std::uint32_t sample = a.keep.sample(sequence);
      const auto words = [&](int of_row, int column) {
        return a.keep.words(sample, head, row - lane / 4 + of_row, n * kKeys + column);
      };
      each_kept_of_queries<kKeys>(a.keep.threshold, words,
                                  [&](int i, bool kept) { scores[i] = kept ? scores[i] : 0; });
    }
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
#pragma unroll
      for (int x = 0; x < 4; ++x)
        p[i][x] = pack_pair<bf16>(scores[8 * i + 2 * x], scores[8 * i + 2 * x + 1]);
  }

  __device__ void start(const KeyTiles& t) {
    const AttentionSizes s = a.sizes.masked<Memory::kCausal>(t.sequence);
    sequence = t.sequence;
    row = t.first_query + number * 64 + warp * 16 + lane / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      max[r] = -kInfinity;
      sum[r] = 0;
      first_key[r] = s.first(sequence, row + 8 * r);
      last_key[r] = min(s.last(sequence, row + 8 * r), s.kv_length - 1);
    }
#pragma unroll
    for (float& x : o) x = 0;
  }

  // o / sum to the tensor by way of shared memory, and lse.
  __device__ void finish(const KeyTiles& t) {
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float total = sum[r] + __shfl_xor_sync(0xffffffff, sum[r], 1);
      total += __shfl_xor_sync(0xffffffff, total, 2);
      factor[r] = a.keep.factor / total;
      const std::int64_t at =
          (std::int64_t{t.sequence} * a.sizes.heads + t.head) * a.sizes.q_length + row + 8 * r;
      if (lane % 4 == 0 && row + 8 * r < a.sizes.q_length)
        a.lse[at] = max[r] * scale() + logf(total);
    }
    constexpr int kTile = Memory::kQueries * 64;  // elements, of 64 channels
    bf16* const out = shared.o() + number * 64 * 64;
    const bool leader = threadIdx.x % kWarpGroup == 0;
    if (leader) store_wait_read();  // of the tile before
    named_sync(kOwn + number, kWarpGroup);
    const auto pair = [&](int i) {
      return i < kValues / 2
                 ? pack_pair<bf16>(o[i] * factor[i % 4 / 2], o[i + 1] * factor[i % 4 / 2])
                 : 0;
    };
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; j += 2) {
      const int unit = j + lane / 16;
      store_matrices(out + unit / 8 * kTile + swizzled(warp * 16 + lane % 16, unit % 8),
                     pair(4 * j), pair(4 * j + 2), pair(4 * j + 4), pair(4 * j + 6));
    }
    fence_async_shared();
    named_sync(kOwn + number, kWarpGroup);
    if (!leader) return;
    const int group = t.head / a.sizes.group(), head = t.head - group * a.sizes.group();
    for (int c = 0; c < kHeadDim; c += 64)
      store_tile(a.o, out + c / 64 * kTile, c, head, group, t.first_query + number * 64,
                 t.sequence);
    store_commit();
    if constexpr (!Memory::kOwnOutput) {
      store_wait_read();
      shared.q_empty.arrive();
    }
  }

  static constexpr int kTurn = 1, kOwn = kTurn + Memory::kConsumers;  // named barriers
};

template <bool kDropout, class Memory>
__device__ void consume(Memory& shared, const Arguments& a, int number) {
  constexpr int kConsumers = Memory::kConsumers, kKeys = Memory::kKeys;
  using Self = Consumer<Memory>;
  Self c{shared, a, number, static_cast<int>(threadIdx.x / 32 % 4),
         static_cast<int>(threadIdx.x % 32)};
  const bool leader = threadIdx.x % kWarpGroup == 0;
  const int own_turn = Self::kTurn + number, next_turn = Self::kTurn + (number + 1) % kConsumers;
  Ring<Memory::kStages> ring{.parity = 0};
  if (number == kConsumers - 1) named_arrive(next_turn, 2 * kWarpGroup);
  for (int parity = 0;; parity ^= 1) {
    shared.tile_full.wait(parity);
    const int tile = shared.tile;
    shared.tile_empty.arrive();
    if (tile >= a.order.size()) break;
    const KeyTiles t = key_tiles<Memory>(a, tile);
    c.start(t);

    shared.q_full.wait(parity);
    shared.k_full[ring.stage].wait(ring.parity);
    c.multiply_keys(ring.stage);
    wgmma_wait<0>();
    pin(c.scores);
    shared.k_empty[ring.stage].arrive_by_warps();
    int n = t.end - 1;
    c.mask(n);
    c.softmax(n, t.head);
    c.template pack<kDropout>(n, t.head);
    // Tiles [begin_all, end_all) hold only keys that every query of this consumer sees.
    const int top = t.first_query + number * 64;
    const AttentionSizes s = a.sizes.masked<Memory::kCausal>(t.sequence);
    const int end_all = (min(s.last(t.sequence, top), s.kv_length - 1) + 1) / kKeys;
    const int begin_all = (s.first(t.sequence, top + 63) + kKeys - 1) / kKeys;
    for (--n; n >= t.begin; --n) {
      const Ring<Memory::kStages> before = ring;
      ring.advance();
      shared.k_full[ring.stage].wait(ring.parity);
      named_sync(own_turn, 2 * kWarpGroup);
      c.multiply_keys(ring.stage);
      shared.v_full[before.stage].wait(before.parity);
      c.multiply_values(before.stage);
      named_arrive(next_turn, 2 * kWarpGroup);
      wgmma_wait<1>();
      pin(c.scores);
      shared.k_empty[ring.stage].arrive_by_warps();
      if (n < begin_all || n >= end_all) c.mask(n);
      c.softmax(n, t.head);
      wgmma_wait<0>();
      pin(c.o);
      shared.v_empty[before.stage].arrive_by_warps();
#pragma unroll
      for (int i = 0; i < Memory::kValues / 2; ++i) c.o[i] *= c.rescale[i % 4 / 2];
      c.template pack<kDropout>(n, t.head);
    }
    if constexpr (Memory::kOwnOutput) shared.q_empty.arrive_by_warps();
    shared.v_full[ring.stage].wait(ring.parity);
    c.multiply_values(ring.stage);
    wgmma_wait<0>();
    pin(c.o);
    shared.v_empty[ring.stage].arrive_by_warps();
    ring.advance();
    c.finish(t);
  }
  if (number == 0) named_sync(own_turn, 2 * kWarpGroup);  // the turn that nobody took
  if (leader) store_wait();
}

template <class Memory, bool kDropout>
__global__ void __launch_bounds__((Memory::kConsumers + 1) * kWarpGroup, 1)
    forward_kernel(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const int group = __shfl_sync(0xffffffff, threadIdx.x / kWarpGroup, 0);
  constexpr bool kTwo = Memory::kConsumers == 2;
  if (group == 0) {
    give_registers_back<kTwo ? 24 : 32>();
    if (threadIdx.x == 0) produce(shared, a);
  } else {
    take_registers<kTwo ? 240 : 160>();
    consume<kDropout>(shared, a, group - 1);
  }
}

template <class Memory>
void launch(bf16* o, float* lse, const bf16* q, const bf16* k, const bf16* v,
            const std::int32_t* first_key, const AttentionShape& s, const Dropout& dropout,
            void* work, cudaStream_t stream) {
  const int per_head = static_cast<int>((s.q_length + Memory::kQueries - 1) / Memory::kQueries);
  const int heads = static_cast<int>(s.sequences * s.heads);
  // Keys and values of these heads fill half of L2.
  const std::int64_t head_bytes = s.kv_length * s.head_dim * 4;
  const std::int64_t at_a_time = (std::int64_t{32} << 20) / head_bytes * s.group();
  const Arguments a{
      tile_map(query_tensor(q, s), Memory::kQueries),
      tile_map(key_tensor(k, s), Memory::kKeys),
      tile_map(key_tensor(v, s), Memory::kKeys),
      tile_map(output_tensor(o, s), 64),
      lse,
      static_cast<int*>(work),
      AttentionSizes(s, first_key),
      {per_head, heads, static_cast<int>(std::clamp<std::int64_t>(at_a_time, 1, heads))},
      KeepRule(dropout, s)};
  check(cudaMemsetAsync(work, 0, sizeof(int), stream));
  launch_persistent(dropout.p > 0 ? forward_kernel<Memory, true> : forward_kernel<Memory, false>, a,
                    a.order.size(), (Memory::kConsumers + 1) * kWarpGroup, sizeof(Memory), stream);
}

}  // namespace

std::size_t hopper::attention_forward_work(const AttentionShape&) { return sizeof(int); }

void hopper::attention_forward(bf16* o, float* lse, const bf16* q, const bf16* k, const bf16* v,
                               const std::int32_t* first_key, const AttentionShape& s,
                               const Dropout& dropout, void* work, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const auto with = [&]<int kChannels, int kKeys, int kConsumers, bool kBiased = false,
                        int kValues = kChannels>() {
    const auto with_mask = [&]<bool kCausal>() {
      using Memory = Shared<kChannels, kValues, kKeys, kConsumers, kCausal, kBiased>;
      static_assert(sizeof(Memory) <= 227 * 1024);
      launch<Memory>(o, lse, q, k, v, first_key, s, dropout, work, stream);
    };
    if (s.causal) return with_mask.template operator()<true>();
    with_mask.template operator()<false>();
  };
  if (s.bias && s.head_dim > 64) return with.template operator()<128, 128, 2, true>();
  if (s.bias) return with.template operator()<64, 128, 2, true>();
  if (s.head_dim <= 64) {
    // Three consumers waste less of the producer's work, two less of the last tile of a short row.
    const auto padded = [&](std::int64_t rows) { return (s.q_length + rows - 1) / rows * rows; };
    if (padded(192) * 12 > padded(128) * 13) return with.template operator()<64, 128, 2>();
    return with.template operator()<64, 128, 3>();
  }
  if (s.head_dim > 192) return with.template operator()<256, 80, 2>();
  if (s.head_dim > 128 && s.value_channels() <= 128)
    return with.template operator()<192, 128, 2, false, 128>();
  if (s.head_dim > 128) return with.template operator()<192, 112, 2>();
  // Wider tiles of keys need more of them to fill the machine.
  if (s.kv_length < 4096 || s.kv_lengths) return with.template operator()<128, 128, 2>();
  with.template operator()<128, 160, 2>();
}

}  // namespace mt::cuda
