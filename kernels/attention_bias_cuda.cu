// The gradient of attention's bias, on every GPU.  A block adds up dS of those pairs of a tile of
// queries and one of keys that are equally far apart, the m-th on a diagonal being queries from
// m kQueries and keys from m kQueries + distance on: at one place of all these tiles keys are
// equally far from queries, so that sums stay in registers until all pairs have been met.
//   S = Q K^T, dP = dO V^T, dS = P (dropout(dP) - delta)
// Q and K of a pair are multiplied while dO and V are on their way, and those while the next pair's
// are; on Turing one after the other.  Diagonals have a block for every so many sequences, whose
// sums a second kernel adds.  The order of sums depends on the shape alone.
#include <algorithm>

#include "base/error.h"
#include "kernels/attention_tile.cuh"
#include "kernels/cuda_check.h"

namespace mt::cuda {
namespace {

template <class T, int kChannels>
struct Tiling {
  static constexpr bool kWide = sizeof(T) == 4;
  static constexpr int kHeadDim = kChannels;
  static constexpr int kWarps = kWide ? 256 / kHeadDim : kHeadDim == 256 ? 2 : 4;
  static constexpr int kQueries = 16 * kWarps,
                       kKeys = std::max(16, (kWide ? 2048 : 4096) / kHeadDim);
  static constexpr int kDistances = kQueries + kKeys - 1;  // on a diagonal
  static_assert(kQueries % kKeys == 0);  // a tile of keys begins before the first key or at its own
};

// Diagonals: those of a shape begin at distances from first kKeys on, in steps of kKeys; `parts`
// blocks share the sequences of each.
struct Diagonals {
  int first, count, parts;
  template <class Tiling>
  static Diagonals of(const AttentionShape& s) {
    const auto tiles = [](std::int64_t length, int tile) {
      return static_cast<int>((length + tile - 1) / tile);
    };
    Diagonals d{};
    d.first = -(tiles(s.q_length, Tiling::kQueries) - 1) * (Tiling::kQueries / Tiling::kKeys);
    d.count = tiles(s.kv_length, Tiling::kKeys) - d.first;
    constexpr std::int64_t kBlocks = 2048;  // several times what any GPU holds at a time
    d.parts =
        static_cast<int>(std::clamp<std::int64_t>(kBlocks / (s.heads * d.count), 1, s.sequences));
    return d;
  }
};

template <class T>
struct Arguments {
  AttentionArguments a;
  Diagonals diagonals;
  const T* d_o;
  const float* lse;
  const T *q, *k, *v;
  float* delta;  // as lse
  float* sums;   // [parts, heads, diagonals, kDistances]: distances from the least on
};

struct RowState {
  float lse2, delta;  // lse log2(e)
  int first, last;    // keys that it sees
};

template <class T, int kChannels, Code kOf = kCode>
struct Shared : Tiling<T, kChannels> {
  using Of = Tiling<T, kChannels>;
  static constexpr int kStages = kRoomy<kOf> ? 2 : 1;
  struct Pair {
    Tile<T, Of::kQueries, kChannels> rows;  // Q or dO
    Tile<T, Of::kKeys, kChannels> keys;     // K or V
  };
  Pair pairs[kStages];
  RowState rows[Of::kQueries];
  float bias2[Of::kDistances];  // times log2(e)

  __device__ Pair& scores() { return pairs[0]; }
  __device__ Pair& gradients() { return pairs[kStages - 1]; }
};

// Walk: the pairs that a block meets, one after the other.
template <class Memory>
struct Walk {
  const AttentionArguments& a;
  const int head, distance, parts;  // distance: of a pair's first key from its first query
  int sequence, m = 0, end = 0;

  template <class T>
  __device__ Walk(const Arguments<T>& x, int in_head, int first_distance, int part)
      : a(x.a), head(in_head), distance(first_distance), parts(x.diagonals.parts), sequence(part) {
    begin_sequence();
  }
  __device__ bool at_end() const { return sequence >= a.sizes.sequences; }
  __device__ void advance() {
    if (++m < end) return;
    sequence += parts;
    begin_sequence();
  }
  __device__ HeadGroup heads() const {
    return HeadGroup(a, sequence * a.sizes.kv_heads + head / a.sizes.group());
  }
  __device__ int row(int query) const {
    const int group = a.sizes.group();
    return query * group + head % group;
  }
  __device__ int first_query() const { return m * Memory::kQueries; }
  __device__ int first_key() const { return first_query() + distance; }

 private:
  __device__ void begin_sequence() {
    constexpr int kQueries = Memory::kQueries;
    for (; !at_end(); sequence += parts) {
      const AttentionSizes s = heads().sizes;
      const bool hidden = s.causal && distance - kQueries >= s.own(0);  // all behind its own key
      m = distance < 0 ? (-distance + kQueries - 1) / kQueries : 0;
      end = min((s.q_length + kQueries - 1) / kQueries,
                (max(s.kv_length - distance, 0) + kQueries - 1) / kQueries);
      if (!hidden && m < end) return;
    }
  }
};

template <class T, class Memory>
struct Block {
  static constexpr int kThreads = 32 * Memory::kWarps;
  static constexpr int kQueries = Memory::kQueries, kKeys = Memory::kKeys;
  const Arguments<T>& x;
  Memory& shared;
  float sums[kKeys / 2] = {};

  __device__ void load_scores(const Walk<Memory>& w) {
    const HeadGroup at = w.heads();
    shared.scores().rows.template load<kThreads>(
        at.sizes.q_length - w.first_query(), at.sizes.head_dim, x.a.whole_units,
        [&](int i) { return x.q + at.q_place(w.row(w.first_query() + i)); }, threadIdx.x);
    load_keys<kThreads>(shared.scores().keys, x.k, at, w.first_key());
    copies_commit();
  }
  __device__ void load_gradients(const Walk<Memory>& w) {
    const HeadGroup at = w.heads();
    shared.gradients().rows.template load<kThreads>(
        at.sizes.q_length - w.first_query(), at.sizes.head_dim, x.a.whole_units,
        [&](int i) { return x.d_o + at.o_place(w.row(w.first_query() + i)); }, threadIdx.x);
    load_keys<kThreads>(shared.gradients().keys, x.v, at, w.first_key());
    copies_commit();
    for (int i = threadIdx.x; i < kQueries; i += kThreads) {
      const int row = w.row(w.first_query() + i);
      if (row < at.rows())
        shared.rows[i] = {x.lse[at.lse_place(row)] * kLog2e, x.delta[at.lse_place(row)],
                          at.first(row), min(at.last(row), at.sizes.kv_length - 1)};
      else
        shared.rows[i] = {.lse2 = kInfinity, .delta = 0, .first = 0, .last = -1};
    }
  }

  __device__ static int row_of(int i) { return threadIdx.x / 32 * 16 + lane() / 4 + i / 2 % 2 * 8; }
  __device__ static int column_of(int i) { return i / 4 * 8 + lane() % 4 * 2 + i % 2; }

  // Adds dS to the sums, from S and dP of this warp's 16 queries; drops dP in place.
  __device__ void add(const float (&scores)[kKeys / 2], float (&dp)[kKeys / 2],
                      const Walk<Memory>& w) {
    if (x.a.dropout) {
      const KeepRule& keep = x.a.keep;
      const std::uint32_t sample = keep.sample(w.sequence);
      const int query = w.first_query() + static_cast<int>(threadIdx.x) / 32 * 16;
      each_kept_of_queries<kKeys>(
          keep.threshold,
          [&](int row, int column) {
            return keep.words(sample, w.head, query + row, w.first_key() + column);
          },
          [&](int i, bool kept) { dp[i] = kept ? dp[i] * keep.factor : 0; });
    }
    const float scale = x.a.sizes.scale * kLog2e;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const RowState row = shared.rows[row_of(i)];
      const int key = w.first_key() + column_of(i);
      const float bias2 = shared.bias2[column_of(i) - row_of(i) + kQueries - 1];
      const float p = exp2_approx(fmaf(scores[i], scale, bias2 - row.lse2));
      if (key >= row.first && key <= row.last) sums[i] += p * (dp[i] - row.delta);
    }
  }

  // Writes the sum of each distance, by way of the tiles' memory.
  __device__ void store(float* to) {
    constexpr int kStride = kKeys + 1;
    static_assert(kQueries * kStride * sizeof(float) <= sizeof(shared.pairs));
    float* const square = reinterpret_cast<float*>(shared.pairs);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) square[row_of(i) * kStride + column_of(i)] = sums[i];
    __syncthreads();
    for (int n = threadIdx.x; n < Memory::kDistances; n += kThreads) {
      float sum = 0;
      for (int i = 0; i < kQueries; ++i) {
        const int column = n - (kQueries - 1) + i;
        if (column >= 0 && column < kKeys) sum += square[i * kStride + column];
      }
      to[n] = sum;
    }
  }
};

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Tiling<T, kHeadDim>::kWarps)
    diagonal_kernel(const Arguments<T> x) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kKeys = Memory::kKeys;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const AttentionSizes& sizes = x.a.sizes;
  const int rest = blockIdx.x / x.diagonals.count, head = rest % sizes.heads;
  const int distance =
      (x.diagonals.first + static_cast<int>(blockIdx.x) % x.diagonals.count) * kKeys;
  for (int i = threadIdx.x; i < Memory::kDistances; i += blockDim.x) {
    const std::int64_t place =
        sizes.bias_row / 2 + distance + i - (Memory::kQueries - 1) - sizes.own(0);
    const bool is_there = place >= 0 && place < sizes.bias_row;
    shared.bias2[i] =
        is_there ? sizes.bias[std::int64_t{head} * sizes.bias_row + place] * kLog2e : 0;
  }

  constexpr bool kAhead = Memory::kStages == 2;
  const int warp = threadIdx.x / 32;
  Block<T, Memory> block{x, shared};
  Walk<Memory> walk(x, head, distance, rest / sizes.heads);
  if (kAhead && !walk.at_end()) block.load_scores(walk);
  while (!walk.at_end()) {
    float scores[kKeys / 2] = {}, dp[kKeys / 2] = {};
    if (!kAhead) {
      __syncthreads();  // those of the pair before have been read
      block.load_scores(walk);
    }
    copies_wait();
    __syncthreads();  // Q and K are there, and dO and V of the pair before have been read
    if (kAhead) block.load_gradients(walk);
    multiply_rows<kHeadDim, kKeys>(scores, shared.scores().rows.row(warp * 16),
                                   shared.scores().keys.row(0));
    if (!kAhead) {
      __syncthreads();  // Q and K have been read
      block.load_gradients(walk);
    }
    copies_wait();
    __syncthreads();  // dO and V are there, and Q and K have been read
    const Walk<Memory> here = walk;
    walk.advance();
    if (kAhead && !walk.at_end()) block.load_scores(walk);
    multiply_rows<kHeadDim, kKeys>(dp, shared.gradients().rows.row(warp * 16),
                                   shared.gradients().keys.row(0));
    block.add(scores, dp, here);
  }
  block.store(x.sums + std::int64_t{blockIdx.x} * Memory::kDistances);
}

// Makes d_bias of the sums of all parts and of the diagonals that have its distance.
template <class Tiling>
__global__ void sum_kernel(float* d_bias, const float* sums, const AttentionSizes sizes,
                           const Diagonals diagonals) {
  constexpr int kKeys = Tiling::kKeys, kQueries = Tiling::kQueries;
  const int i = blockIdx.x * blockDim.x + threadIdx.x, head = i / sizes.bias_row;
  if (head >= sizes.heads) return;
  const int distance = i % sizes.bias_row - sizes.bias_row / 2 + sizes.own(0);
  const auto diagonal_of = [](int d) { return d >= 0 ? d / kKeys : -((kKeys - 1 - d) / kKeys); };
  const int begin = max(diagonal_of(distance) - diagonals.first, 0);
  const int end = min(diagonal_of(distance + kQueries - 1) - diagonals.first + 1, diagonals.count);
  float sum = 0;
  for (int part = 0; part < diagonals.parts; ++part)
    for (int n = begin; n < end; ++n) {
      const std::int64_t block = (std::int64_t{part} * sizes.heads + head) * diagonals.count + n;
      sum += sums[block * Tiling::kDistances + distance - (diagonals.first + n) * kKeys + kQueries -
                  1];
    }
  d_bias[i] = sum;
}

std::size_t rows_of(const AttentionShape& s) {
  return static_cast<std::size_t>(s.sequences * s.heads * s.q_length);
}

}  // namespace

template <class T>
std::size_t attention_bias_backward_work(const AttentionShape& s) {
  std::size_t sums = 0;
  if (rows_of(s) > 0)
    with_channels(s.head_dim, [&]<int kHeadDim>() {
      using Of = Tiling<T, kHeadDim>;
      const auto d = Diagonals::of<Of>(s);
      sums = static_cast<std::size_t>(s.heads * d.parts) * d.count * Of::kDistances;
    });
  return (rows_of(s) + sums) * sizeof(float);
}

template <class T>
void attention_bias_backward(float* d_bias, const T* d_o, const T* o, const float* lse, const T* q,
                             const T* k, const T* v, const std::int32_t* first_key,
                             const AttentionShape& s, const Dropout& dropout, void* work,
                             cudaStream_t stream) {
  const std::int64_t distances = s.heads * (2 * s.kv_length - 1);
  if (s.heads * s.kv_length == 0) return;
  if (rows_of(s) == 0) return check(cudaMemsetAsync(d_bias, 0, distances * sizeof(float), stream));
  if (s.softcap != 0) fail(Exit::internal, "attention_bias_backward: scores are capped");
  if (dropout.p > 0 && (s.place.key | s.place.key_gap | s.place.chunk) % 8 != 0)
    fail(Exit::internal, "attention_bias_backward: keys from ", s.place.key, " on");
  float* const delta = static_cast<float*>(work);
  Arguments<T> x{AttentionArguments(s, first_key, dropout, sizeof(T), d_o, q, k, v),
                 {},
                 d_o,
                 lse,
                 q,
                 k,
                 v,
                 delta,
                 delta + rows_of(s)};
  attention_delta(delta, d_o, o, x.a.sizes, stream);
  with_channels(s.head_dim, [&]<int kHeadDim>() {
    using Of = Tiling<T, kHeadDim>;
    x.diagonals = Diagonals::of<Of>(s);
    with_code([&]<Code kOf>() {
      using Memory = Shared<T, kHeadDim, kOf>;
      static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
      const auto kernel = diagonal_kernel<T, kHeadDim>;
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 sizeof(Memory)));
      const std::int64_t blocks = s.heads * x.diagonals.parts * x.diagonals.count;
      kernel<<<static_cast<unsigned>(blocks), 32 * Of::kWarps, sizeof(Memory), stream>>>(x);
    });
    check(cudaGetLastError());
    sum_kernel<Of><<<static_cast<unsigned>((distances + 127) / 128), 128, 0, stream>>>(
        d_bias, x.sums, x.a.sizes, x.diagonals);
  });
  check(cudaGetLastError());
}

template std::size_t attention_bias_backward_work<float>(const AttentionShape&);
template std::size_t attention_bias_backward_work<bf16>(const AttentionShape&);
template std::size_t attention_bias_backward_work<__half>(const AttentionShape&);
template void attention_bias_backward(float*, const float*, const float*, const float*,
                                      const float*, const float*, const float*, const std::int32_t*,
                                      const AttentionShape&, const Dropout&, void*, cudaStream_t);
template void attention_bias_backward(float*, const bf16*, const bf16*, const float*, const bf16*,
                                      const bf16*, const bf16*, const std::int32_t*,
                                      const AttentionShape&, const Dropout&, void*, cudaStream_t);
template void attention_bias_backward(float*, const __half*, const __half*, const float*,
                                      const __half*, const __half*, const __half*,
                                      const std::int32_t*, const AttentionShape&, const Dropout&,
                                      void*, cudaStream_t);

}  // namespace mt::cuda
