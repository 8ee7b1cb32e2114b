// A cluster of blocks for a key head of a sequence: the keys are dealt out in tiles, to the blocks
// in runs and to their warps by turns.  What its warps found of a query each block joins and sends
// to one of them, which joins what all sent.  Each block turns the queries for itself; the one that
// has the token's own place turns its key.
#include <algorithm>

#include "kernels/attention_rows.cuh"
#include "kernels/dependent.cuh"
#include "kernels/hopper.cuh"
#include "kernels/token_attention.h"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kBlocks = 8;             // of a cluster
constexpr int kKeys = 16;              // of a tile
constexpr int kJoined = 16 / kBlocks;  // queries that a block joins at most: every kBlocks-th

template <class T, int kHeadDim>
struct Shared {
  // A block has as many warps as leave room for other kernels' blocks.
  static constexpr int kWarps = std::clamp(1024 / kHeadDim / static_cast<int>(sizeof(T)), 1, 8);
  static constexpr int kThreads = 32 * kWarps;
  struct Stage {
    Tile<T, kKeys, kHeadDim> k, v;
  };
  Tile<T, 16, kHeadDim> q;
  Tile<T, 2, kHeadDim> own;  // the token's key and value
  union {
    Stage stages[2];
    float o[16][row_stride<float>(kHeadDim)];
  } of_warp[kWarps];
  float max[kWarps][16], sum[kWarps][16];
  typename Left<T, kKeys>::Strip strips[kWarps];
  // What each block found for the queries whose results this block joins.
  Barrier arrived;
  float2 of_block[kBlocks][kJoined];  // maximum and sum
  float o_of_block[kBlocks][kJoined][kHeadDim];
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

template <int N, class T, int kHeadDim>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(Shared<T, kHeadDim>::kThreads)
    token_kernel(const AttentionArguments a, const TokenAttention<T> p, const Turn turn) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kWarps = Memory::kWarps, kThreads = Memory::kThreads;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  let_next_kernel_begin();
  const HeadGroup at(a, blockIdx.x / kBlocks);
  const int warp = threadIdx.x / 32, count = at.group, head_dim = at.sizes.head_dim;
  const int rank = static_cast<int>(blockIdx.x) % kBlocks;
  const int joined = (count - rank + kBlocks - 1) / kBlocks;
  if (threadIdx.x == 0) {
    shared.arrived.init(1);
    fence_barrier_init();
    shared.arrived.arrive_and_expect(joined * kBlocks * (kHeadDim + 2) *
                                     static_cast<int>(sizeof(float)));
  }
  cluster_arrive();
  const int own = at.last(0), first = max(at.first(0), 0);
  // This block's run of tiles, of which this warp takes every kWarps-th.
  const int begin = first / kKeys, tiles = own / kKeys + 1 - begin;
  const int run = (tiles + kBlocks - 1) / kBlocks;
  const int from = begin + rank * run;
  const int end = min(from + run, begin + tiles);
  HeadGroup past = at;
  past.sizes.kv_length = own;
  const auto load = [&](int n) {
    auto& stage = shared.of_warp[warp].stages[(n - from) / kWarps % 2];
    load_keys<32>(stage.k, static_cast<const T*>(p.keys), past, n * kKeys, lane());
    load_keys<32>(stage.v, static_cast<const T*>(p.values), past, n * kKeys, lane());
  };
  for (int i = threadIdx.x; i < 16 * kHeadDim; i += kThreads)
    shared.q.row(i / kHeadDim)[i % kHeadDim] = T(0.0f);
  if (from + warp < end) load(from + warp);  // older than the kernel before
  copies_commit();
  const int whole = (first + kKeys - 1) / kKeys;  // from here on every key of a tile is seen
  WarpRows<kHeadDim, kKeys> rows(at, 0);
  Rows<N, T> projected(p, turn, at);
  __syncthreads();
  wait_for_kernel_before();
  projected.turn(shared);
  __syncthreads();
  for (int n = from + warp; n < end; n += kWarps) {
    if (n + kWarps < end) load(n + kWarps);
    copies_commit();
    copies_wait<1>();
    __syncwarp();
    auto& stage = shared.of_warp[warp].stages[(n - from) / kWarps % 2];
    if (n == own / kKeys) {
      const std::int64_t place = at.key_place(own);
      put_row(stage.k.row(own % kKeys), p.keys + place, shared.own, 0, head_dim);
      put_row(stage.v.row(own % kKeys), p.values + place, shared.own, 1, head_dim);
      __syncwarp();
    }
    rows.multiply_keys(shared.q.row(0), stage.k.row(0));
    if (n < whole || n == own / kKeys) rows.mask(n * kKeys);
    rows.softmax();
    rows.multiply_values(stage.v.row(0), shared.strips[warp]);
    __syncwarp();  // the stage has been read
  }
  rows.finish_sums();
  rows.leave(shared.of_warp[warp].o, shared.max[warp], shared.sum[warp]);
  __syncthreads();

  // weight(i) sum(i), relative to the largest maximum, over warps and then over blocks.
  const auto join = [](int parts, const auto& max_of, const auto& sum_of, const auto& o_of,
                       float& top, float& total) {
    top = -kInfinity;
    total = 0;
    float o = 0;
    for (int i = 0; i < parts; ++i) top = fmaxf(top, max_of(i));
    for (int i = 0; i < parts && top > -kInfinity; ++i) {
      const float weight = exp2_approx(max_of(i) - top);
      total += weight * sum_of(i);
      o += weight * o_of(i);
    }
    return o;
  };
  float top, total;
  cluster_wait();
  for (int i = threadIdx.x; i < count * kHeadDim; i += kThreads) {
    const int row = i / kHeadDim, c = i % kHeadDim, to = row % kBlocks, n = row / kBlocks;
    const float o = join(
        kWarps, [&](int w) { return shared.max[w][row]; },
        [&](int w) { return shared.sum[w][row]; },
        [&](int w) { return shared.of_warp[w].o[row][c]; }, top, total);
    const std::uint32_t arrived = in_block(&shared.arrived, to);
    send(in_block(&shared.o_of_block[rank][n][c], to), o, arrived);
    if (c == 0) send(in_block(&shared.of_block[rank][n], to), top, total, arrived);
  }
  if (joined <= 0) return;
  shared.arrived.wait(0);
  for (int i = threadIdx.x; i < joined * kHeadDim; i += kThreads) {
    const int n = i / kHeadDim, c = i % kHeadDim;
    const float o = join(
        kBlocks, [&](int b) { return shared.of_block[b][n].x; },
        [&](int b) { return shared.of_block[b][n].y; },
        [&](int b) { return shared.o_of_block[b][n][c]; }, top, total);
    if (c < head_dim) p.o[at.o_place(rank + n * kBlocks) + c] = static_cast<T>(o / total);
  }
}

template <int N, int kHeadDim, class T>
void launch(const AttentionArguments& a, const TokenAttention<T>& p, const Turn& turn,
            cudaStream_t stream) {
  using Memory = Shared<T, kHeadDim>;
  const auto kernel = token_kernel<N, T, kHeadDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
  leave_memory_shared(kernel);
  launch_dependent(kernel, std::int64_t{kBlocks} * a.sizes.sequences * a.sizes.kv_heads,
                   Memory::kThreads, sizeof(Memory), stream, a, p, turn);
}

}  // namespace

bool token_attention_fits(const AttentionShape& s) {
  return hopper_kernels() && s.q_length == 1 && few_rows(s) && s.head_dim <= 256 && s.causal &&
         s.kv_lengths && s.kv_slots && s.softcap == 0;
}

template <class T>
void token_attention(const TokenAttention<T>& p, const AttentionShape& s, cudaStream_t stream) {
  if (s.sequences * s.heads == 0) return;
  const AttentionArguments a(s, p.first_key, {}, sizeof(T), p.o, p.qkv, p.keys, p.values);
  const Turn turn{p.angles, static_cast<int>(p.rotary_dim / 2), p.interleaved, 1};
  const bool wide = a.whole_units && fits(turn, s.head_dim, kWide<T>);
  with_width<kWide<T>>(wide, [&]<int N>() {
    with_channels(s.head_dim, [&]<int kHeadDim>() { launch<N, kHeadDim>(a, p, turn, stream); });
  });
}

#define INSTANTIATE(T) \
  template void token_attention(const TokenAttention<T>&, const AttentionShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(__half);

}  // namespace mt::cuda
