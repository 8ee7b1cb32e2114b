// The keys of a sequence's key head are dealt out in tiles: to eight runs, one behind the other,
// and to warps by turns.  What a warp finds in each run is merged in the order of the runs, and
// then what the warps found.  Where heads are few, eight blocks have a run each and send what they
// found of a query to one of them; where they are many, one block takes the runs one after the
// other.  Each block turns the queries for itself; the one that has the token's own place turns its
// key.
#include <algorithm>

#include "kernels/attention_rows.cuh"
#include "kernels/cached_codes.cuh"
#include "kernels/dependent.cuh"
#include "kernels/hopper.cuh"
#include "kernels/token_attention.h"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kRuns = 8;
constexpr int kKeys = 16;        // of a tile
constexpr int kStages = 2;       // of a warp: tiles that lie or arrive in its memory
constexpr int kMostApart = 100;  // key heads of all sequences that have a block for each run

// What two warps, or one in two runs, found of a query under the larger of their maxima.
struct Merge {
  float top, of_one, of_other;

  __device__ Merge(float one, float other) : top(fmaxf(one, other)) {
    const float base = top == -kInfinity ? 0 : top;  // neither has seen a key
    of_one = exp2_approx(one - base);
    of_other = exp2_approx(other - base);
  }
  __device__ float operator()(float one, float other) const {
    return fmaf(other, of_other, one * of_one);
  }
};

// One channel of a query: the sum of weighted values, and the maximum and the sum of the weights.
struct Found {
  float o = 0, max = -kInfinity, sum = 0;

  __device__ void add(const Found& other) {
    const Merge merge(max, other.max);
    o = merge(o, other.o);
    sum = merge(sum, other.sum);
    max = merge.top;
  }
};

// C: what the cache has, T or codes.
template <class T, class C, int kHeadDim, int kBlocks>
struct Shared {
  // A block has as many warps as leave room for other kernels' blocks.
  static constexpr int kWarps = std::clamp(1024 / kHeadDim / static_cast<int>(sizeof(T)), 1, 8);
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kJoined = 16 / kBlocks;  // queries that a block joins at most
  struct Stage {
    Tile<C, kKeys, kHeadDim> k, v;
  };
  struct Numbers {  // what a stage's codes are
    Tile<T, kKeys, kHeadDim> k, v;
  };
  // What a warp found of a query.
  struct Part {
    float2 of_query;  // maximum and sum
    float o[kHeadDim];
  };
  // Of the queries that this block joins; there is memory for as many as there are.
  struct Apart {
    Barrier arrived;
    Part found[kJoined][kBlocks][kWarps];
  };
  struct Alone {};
  Tile<T, 16, kHeadDim> q;
  Tile<T, 2, kHeadDim> own;  // the token's key and value
  union {
    Stage stages[kStages];
    Part found[kJoined];  // of one block alone: once the stages have been read
  } of_warp[kWarps];
  typename Left<T, kKeys>::Strip strips[kWarps];
  std::conditional_t<std::is_same_v<T, C>, Alone, Numbers> numbers[kWarps];
  std::conditional_t<kBlocks == 1, Alone, Apart> cluster;

  // Of a key head's so many queries.
  static std::size_t bytes(std::int64_t group) {
    if constexpr (kBlocks == 1) return sizeof(Shared);
    constexpr std::size_t kOfQuery = kBlocks * kWarps * sizeof(Part);
    return sizeof(Shared) -
           (kJoined - static_cast<std::size_t>(ceil_div(group, kBlocks))) * kOfQuery;
  }
};

// What a warp found in the runs so far, of the rows that its threads have (WarpRows).
template <int kHeadDim>
struct WarpFound {
  float o[kHeadDim / 2] = {};
  float max[2] = {-kInfinity, -kInfinity}, sum[2] = {};

  // One more run, which then has been finished.
  __device__ void add(WarpRows<kHeadDim, kKeys>& run) {
    run.finish_sums();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float of_run = run.max[r] * run.at.sizes.scale * kLog2e;
      const Merge merge(max[r], of_run);
#pragma unroll
      for (int i = 2 * r; i < kHeadDim / 2; i += 4)
        for (int x = i; x < i + 2; ++x) {
          o[x] = merge(o[x], run.o[x]);
          run.o[x] = 0;
        }
      sum[r] = merge(sum[r], run.sum[r]);
      max[r] = merge.top;
      run.max[r] = -kInfinity;
      run.sum[r] = 0;
    }
  }
  // f(which of the thread's rows, row) of the first `count` rows.
  template <class F>
  __device__ void for_rows(int count, const F& f) const {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (const int row = lane() / 4 + 8 * r; row < count) f(r, row);
  }
  // f(channel, o of it, of the next).
  template <class F>
  __device__ void for_channels(int r, const F& f) const {
#pragma unroll
    for (int i = 2 * r; i < kHeadDim / 2; i += 4) f(i / 4 * 8 + lane() % 4 * 2, o[i], o[i + 1]);
  }
};

// The rows of the projection of a key head's group, turned: queries, the key, the value.  Made
// ahead of the kernel before, so that this thread's first unit of them is known when it has ended.
template <int N, class T>
class Rows {
 public:
  __device__ Rows(const TokenAttention<T>& p, const Turn& turn, const HeadGroup& at)
      : turn_(turn),
        head_dim_(at.sizes.head_dim),
        group_(at.group),
        of_head_(turn.units<N>(head_dim_)),
        turned_((at.group + 1) * of_head_),
        sequence_(at.sequence),
        from_(p.qkv + (std::int64_t{at.sequence} * at.sizes.kv_heads + at.kv_head) *
                          (at.group + 2) * head_dim_) {
    find(threadIdx.x);
  }
  template <class Memory>
  __device__ void turn(Memory& shared) {
    const int all = turned_ + Turn{}.units<N>(head_dim_);
    for (int i = threadIdx.x; i < all; find(i += Memory::kThreads)) {
      const T* const from = from_ + row_ * head_dim_;
      if (row_ > group_)
        Turn{}.operator()<N>(shared.own.row(1), from, head_dim_, 0, unit_);
      else
        turn_.operator()<N>(row_ < group_ ? shared.q.row(row_) : shared.own.row(0), from, head_dim_,
                            sequence_, unit_);
    }
  }

 private:
  __device__ void find(int i) {
    row_ = i < turned_ ? i / of_head_ : group_ + 1;
    unit_ = i - row_ * of_head_;
  }

  const Turn& turn_;
  const int head_dim_, group_, of_head_, turned_, sequence_;
  const T* const from_;
  int row_, unit_;
};

// Row `to` of a tile, and its place in the cache.
template <class T, class Tile>
__device__ void put_row(T* to, T* cached, const Tile& own, int row, int head_dim) {
  const T* const from = own.elements + row * Tile::kStride;
  for (int c = lane(); c < head_dim; c += 32) {
    to[c] = from[c];
    cached[c] = from[c];
  }
}

// A warp's tile of codes becomes numbers.
template <class T, int kHeadDim>
__device__ void unpack_tile(Tile<T, kKeys, kHeadDim>& to,
                            Tile<std::uint8_t, kKeys, kHeadDim>& codes, float scale) {
  constexpr int kAtOnce = 4, kUnits = kHeadDim / kAtOnce;
#pragma unroll 4
  for (int i = lane(); i < kKeys * kUnits; i += 32) {
    const int r = i / kUnits, c = i % kUnits * kAtOnce;
    numbers_of(to.row(r) + c, *reinterpret_cast<const std::uint32_t*>(codes.row(r) + c), scale);
  }
}

// The tiles of a warp in some of the runs, one after the other.
template <int kWarps>
struct WarpTiles {
  const int of_run, end;  // tiles
  int run, end_of_run, n;

  __device__ WarpTiles(int first, int tiles, int first_run, int runs)
      : of_run((tiles + kRuns - 1) / kRuns),
        end(first + min((first_run + runs) * of_run, tiles)),
        run(first_run),
        end_of_run(first + (first_run + 1) * of_run) {
    const int warp = static_cast<int>(threadIdx.x) / 32, before = first_run * of_run;
    n = first + before + ((warp - before) & (kWarps - 1));
    enter();
  }
  __device__ bool are_left() const { return n < end; }
  // The run changes with its last tile.
  __device__ void advance() {
    n += kWarps;
    enter();
  }

 private:
  __device__ void enter() {
    if (n >= end) ++run;
    for (; n < end && n >= end_of_run; end_of_run += of_run) ++run;
  }
};

template <int N, class T, class C, int kHeadDim, int kBlocks>
__global__ void __cluster_dims__(kBlocks)
    __launch_bounds__(Shared<T, C, kHeadDim, kBlocks>::kThreads)
        token_kernel(const AttentionArguments a, const TokenAttention<T> p, const Turn turn) {
  using Memory = Shared<T, C, kHeadDim, kBlocks>;
  constexpr bool kCodes = !std::is_same_v<T, C>;
  constexpr int kWarps = Memory::kWarps, kThreads = Memory::kThreads;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  let_next_kernel_begin();
  const HeadGroup at(a, blockIdx.x / kBlocks);
  const int warp = threadIdx.x / 32, count = at.group, head_dim = at.sizes.head_dim;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks;
  const int joined = (count - rank + kBlocks - 1) / kBlocks;  // every kBlocks-th query
  if constexpr (kBlocks > 1) {
    if (threadIdx.x == 0) {
      shared.cluster.arrived.init(1);
      fence_barrier_init();
      shared.cluster.arrived.arrive_and_expect(joined * kBlocks * kWarps * (kHeadDim + 2) *
                                               static_cast<int>(sizeof(float)));
    }
    cluster_arrive();
  }
  const int own = at.last(0), first = max(at.first(0), 0), begin = first / kKeys;
  HeadGroup past = at;
  past.sizes.kv_length = p.is_cached ? own + 1 : own;
  WarpTiles<kWarps> coming(begin, own / kKeys + 1 - begin, rank * (kRuns / kBlocks),
                           kRuns / kBlocks);
  WarpTiles<kWarps> tiles = coming;
  int stage = 0;
  const auto load_next = [&](int to) {
    if (coming.are_left()) {
      auto& place = shared.of_warp[warp].stages[to];
      const C *keys, *values;
      if constexpr (kCodes)
        keys = p.key_codes, values = p.value_codes;
      else
        keys = p.keys, values = p.values;
      load_keys<32>(place.k, keys, past, coming.n * kKeys, lane());
      load_keys<32>(place.v, values, past, coming.n * kKeys, lane());
      coming.advance();
    }
    copies_commit();
  };
  for (int i = threadIdx.x; i < 16 * kHeadDim; i += kThreads)
    shared.q.row(i / kHeadDim)[i % kHeadDim] = T(0.0f);
  if (p.is_cached) wait_for_kernel_before();  // whose keys they are; else they are older
  for (int n = 0; n < kStages; ++n) load_next(n);
  const int whole = (first + kKeys - 1) / kKeys;  // from here on every key of a tile is seen
  WarpRows<kHeadDim, kKeys> rows(at, 0);
  WarpFound<kHeadDim> found;
  Rows<N, T> projected(p, turn, at);
  __syncthreads();
  wait_for_kernel_before();
  projected.turn(shared);
  __syncthreads();
  while (tiles.are_left()) {
    copies_wait<kStages - 1>();
    __syncwarp();
    auto& place = shared.of_warp[warp].stages[stage];
    const int n = tiles.n, run = tiles.run;
    const T *keys, *values;
    if constexpr (kCodes) {
      auto& numbers = shared.numbers[warp];
      unpack_tile<T, kHeadDim>(numbers.k, place.k, p.scales.keys);
      unpack_tile<T, kHeadDim>(numbers.v, place.v, p.scales.values);
      keys = numbers.k.row(0), values = numbers.v.row(0);
      __syncwarp();
    } else {
      if (n == own / kKeys && !p.is_cached) {
        const std::int64_t cached = at.key_place(own);
        put_row(place.k.row(own % kKeys), p.keys + cached, shared.own, 0, head_dim);
        put_row(place.v.row(own % kKeys), p.values + cached, shared.own, 1, head_dim);
        __syncwarp();
      }
      keys = place.k.row(0), values = place.v.row(0);
    }
    rows.multiply_keys(shared.q.row(0), keys);
    if (n < whole || n == own / kKeys) rows.mask(n * kKeys);
    rows.softmax();
    rows.multiply_values(values, shared.strips[warp]);
    __syncwarp();  // the stage has been read
    load_next(stage);
    stage = (stage + 1) % kStages;
    tiles.advance();
    if (tiles.run != run) found.add(rows);
  }

  if constexpr (kBlocks == 1) {
    copies_wait<0>();
    auto& part = shared.of_warp[warp].found;
    found.for_rows(count, [&](int r, int row) {
      found.for_channels(r, [&](int c, float x, float y) { store_pair(&part[row].o[c], x, y); });
      if (lane() % 4 == 0) part[row].of_query = make_float2(found.max[r], found.sum[r]);
    });
    __syncthreads();
  } else {
    cluster_wait();
    found.for_rows(count, [&](int r, int row) {
      const int to = row % kBlocks;
      auto& part = shared.cluster.found[row / kBlocks][rank][warp];
      const std::uint32_t o = in_block(part.o, to), arrived = in_block(&shared.cluster.arrived, to);
      found.for_channels(r, [&](int c, float x, float y) {
        send(o + static_cast<std::uint32_t>(c * sizeof(float)), x, y, arrived);
      });
      if (lane() % 4 == 0) send(in_block(&part.of_query, to), found.max[r], found.sum[r], arrived);
    });
    if (joined <= 0) return;
    shared.cluster.arrived.wait(0);
  }
  for (int i = threadIdx.x; i < joined * kHeadDim; i += kThreads) {
    const int n = i / kHeadDim, c = i % kHeadDim;
    const auto of = [&](const auto& part) {
      return Found{part.o[c], part.of_query.x, part.of_query.y};
    };
    Found all;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      Found of_warp;
      if constexpr (kBlocks == 1)
        of_warp = of(shared.of_warp[w].found[n]);
      else
        for (int b = 0; b < kBlocks; ++b) of_warp.add(of(shared.cluster.found[n][b][w]));
      all.add(of_warp);
    }
    if (c < head_dim) p.o[at.o_place(rank + n * kBlocks) + c] = static_cast<T>(all.o / all.sum);
  }
}

template <int N, class C, int kHeadDim, int kBlocks, class T>
void launch(const AttentionArguments& a, const TokenAttention<T>& p, const Turn& turn,
            cudaStream_t stream) {
  using Memory = Shared<T, C, kHeadDim, kBlocks>;
  const auto kernel = token_kernel<N, T, C, kHeadDim, kBlocks>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
  leave_memory_shared(kernel);
  launch_dependent(kernel, std::int64_t{kBlocks} * a.sizes.sequences * a.sizes.kv_heads,
                   Memory::kThreads, Memory::bytes(a.sizes.heads / a.sizes.kv_heads), stream, a, p,
                   turn);
}

template <int N, class C, class T>
void launch(const AttentionArguments& a, const TokenAttention<T>& p, const AttentionShape& s,
            const Turn& turn, cudaStream_t stream) {
  with_channels(s.head_dim, [&]<int kHeadDim>() {
    if (s.sequences * s.kv_heads <= kMostApart)
      launch<N, C, kHeadDim, kRuns>(a, p, turn, stream);
    else
      launch<N, C, kHeadDim, 1>(a, p, turn, stream);
  });
}

}  // namespace

bool token_attention_fits(const AttentionShape& s) {
  return hopper_kernels() && s.q_length == 1 && few_rows(s) && s.head_dim <= 256 && s.causal &&
         s.kv_lengths && s.kv_slots && s.softcap == 0;
}

template <class T>
void token_attention(const TokenAttention<T>& p, const AttentionShape& s, cudaStream_t stream) {
  if (s.sequences * s.heads == 0) return;
  const bool codes = p.key_codes != nullptr;
  const AttentionArguments a =
      codes ? AttentionArguments(s, p.first_key, {}, 1, p.key_codes, p.value_codes)
            : AttentionArguments(s, p.first_key, {}, sizeof(T), p.o, p.qkv, p.keys, p.values);
  const Turn turn{p.angles, static_cast<int>(p.rotary_dim / 2), p.interleaved, 1};
  if constexpr (sizeof(T) == 2)
    if (codes) return launch<1, std::uint8_t>(a, p, s, turn, stream);
  const bool wide = a.whole_units && fits(turn, s.head_dim, kWide<T>);
  with_width<kWide<T>>(wide, [&]<int N>() { launch<N, T>(a, p, s, turn, stream); });
}

#define INSTANTIATE(T) \
  template void token_attention(const TokenAttention<T>&, const AttentionShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(__half);

}  // namespace mt::cuda
