// Attention's forward for every GPU from sm_80 on, and the choice between it and Hopper's.  A block
// holds a tile of rows (attention_tile.cuh), 16 for each warp, and walks the tiles of keys that
// they see with a running maximum and sum (attention.h).  V is on its way while Q meets K, and the
// next K while P meets V.
#include <algorithm>

#include "kernels/attention_tile.cuh"
#include "kernels/cuda_check.h"
#include "kernels/gpu.h"

namespace mt::cuda {
namespace {

template <class T>
struct Tensors {
  T* o;
  float* lse;
  const T *q, *k, *v;
};

template <class T, int kHeadDim>
struct Shared {
  static constexpr bool kWide = sizeof(T) == 4;
  static constexpr int kChannels = kHeadDim;
  static constexpr int kWarps = kWide ? (kHeadDim == 256 ? 2 : 4) : (kHeadDim == 256 ? 4 : 8);
  static constexpr int kRows = 16 * kWarps;
  static constexpr int kKeys = kWide ? (kHeadDim == 256 ? 16 : 32) : (kHeadDim == 256 ? 32 : 64);
  using Factor = Left<T, kKeys>;
  Tile<T, kRows, kHeadDim> q;  // and o
  Tile<T, kKeys, kHeadDim> k, v;
  typename Factor::Strip strips[kWarps];
};

// The part of a tile of rows that a warp has: 16 rows, two of them in parts in each thread.
template <class T, class Memory>
struct Warp {
  static constexpr int kChannels = Memory::kChannels, kKeys = Memory::kKeys;
  const HeadGroup& at;
  const int first_row;  // of the thread's two, which are 8 apart
  float scores[kKeys / 2], o[kChannels / 2] = {};
  float max[2] = {-kInfinity, -kInfinity}, sum[2] = {};
  int first_key[2], last_key[2];

  __device__ Warp(const HeadGroup& heads, int row) : at(heads), first_row(row) {
    for (int r = 0; r < 2; ++r) {
      first_key[r] = at.first(row + 8 * r);
      last_key[r] = at.last(row + 8 * r);
    }
  }

  // f(score, row 0 or 1, key).
  template <class F>
  __device__ void for_scores(int n, const F& f) {
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i)
      f(scores[i], i / 2 % 2, n * kKeys + i / 4 * 8 + lane() % 4 * 2 + i % 2);
  }

  __device__ void mask(int n) {
    for_scores(n, [&](float& score, int r, int key) {
      if (key < first_key[r] || key > last_key[r]) score = -kInfinity;
    });
  }

  // Scores become exp(score - max) with the rows' new maxima; o and sum follow.
  __device__ void softmax() {
    const float scale = at.sizes.scale * kLog2e;
    float base[2], rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float next = max[r];
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4)
        next = fmaxf(next, fmaxf(scores[i], scores[i + 1]));
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 1));
      next = fmaxf(next, __shfl_xor_sync(0xffffffff, next, 2));
      base[r] = next == -kInfinity ? 0 : next * scale;  // a row may see no key of this tile
      rescale[r] = exp2_approx(max[r] * scale - base[r]);
      max[r] = next;
      sum[r] *= rescale[r];
    }
    for_scores(0, [&](float& score, int r, int) {
      score = exp2_approx(fmaf(score, scale, -base[r]));
      sum[r] += score;
    });
#pragma unroll
    for (int i = 0; i < kChannels / 2; ++i) o[i] *= rescale[i / 2 % 2];
  }

  __device__ void drop(int n, std::uint32_t sample) {
    for_scores(n, [&](float& score, int r, int key) {
      score *= at.factor(sample, first_row + 8 * r, key);
    });
  }
};

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim>::kWarps)
    forward_kernel(const AttentionArguments a, const Tensors<T> t) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const int groups = a.sizes.sequences * a.sizes.kv_heads;
  const HeadGroup at(a, blockIdx.x % groups);
  const int tiles = gridDim.x / groups;
  const int first_row = (tiles - 1 - blockIdx.x / groups) * kRows;  // the longest first
  const int rows = min(kRows, at.rows() - first_row), last_row = first_row + rows - 1;
  const int begin = at.first(first_row) / kKeys, end = at.last(last_row) / kKeys + 1;
  // Tiles [begin_all, end_all) hold only keys that every row sees.
  const int begin_all = (at.first(last_row) + kKeys - 1) / kKeys;
  const int end_all = (at.last(first_row) + 1) / kKeys;

  const auto load_keys = [&](auto& tile, const T* from, int n) {
    tile.load(at.sizes.kv_length - n * kKeys, a.head_dim, a.whole_units,
              [&](int i) { return from + at.key_place(n * kKeys + i); });
    copies_commit();
  };
  shared.q.load(rows, a.head_dim, a.whole_units,
                [&](int i) { return t.q + at.place(first_row + i); });
  load_keys(shared.k, t.k, begin);

  const int warp = threadIdx.x / 32;
  const std::uint32_t sample = a.dropout ? a.keep.sample(at.sequence) : 0;
  Warp<T, Memory> w(at, first_row + warp * 16 + lane() / 4);
  for (int n = begin; n < end; ++n) {
    copies_wait();
    __syncthreads();  // K is there, and V has been read
    load_keys(shared.v, t.v, n);
#pragma unroll
    for (float& score : w.scores) score = 0;
    multiply_rows<kHeadDim, kKeys>(w.scores, shared.q.row(warp * 16), shared.k.row(0));
    if (n < begin_all || n >= end_all) w.mask(n);
    w.softmax();
    if (a.dropout) w.drop(n, sample);
    copies_wait();
    __syncthreads();  // V is there, and K has been read
    if (n + 1 < end) load_keys(shared.k, t.k, n + 1);
    const typename Memory::Factor p(w.scores, shared.strips[warp]);
    multiply<decltype(shared.v)::kStride, kHeadDim>(w.o, p, shared.v.row(0));
  }

  float factor[2];
  for (int r = 0; r < 2; ++r) {
    float total = w.sum[r] + __shfl_xor_sync(0xffffffff, w.sum[r], 1);
    total += __shfl_xor_sync(0xffffffff, total, 2);
    factor[r] = 1 / total;
    const int row = w.first_row + 8 * r;
    if (lane() % 4 == 0 && row <= last_row)
      t.lse[at.lse_place(row)] = w.max[r] * a.sizes.scale + logf(total);
  }
  store_rows<kHeadDim>(w.o, factor, shared.q, warp * 16, rows - warp * 16, a.head_dim,
                       a.whole_units,
                       [&](int i) { return t.o + at.place(first_row + warp * 16 + i); });
}

template <int kHeadDim, class T>
void launch(const AttentionArguments& a, const Tensors<T>& tensors, cudaStream_t stream) {
  using Memory = Shared<T, kHeadDim>;
  static_assert(sizeof(Memory) <= kMostSharedBytes);
  const int rows = a.sizes.q_length * a.sizes.group();
  const int tiles = (rows + Memory::kRows - 1) / Memory::kRows;
  const auto kernel = forward_kernel<T, kHeadDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
  kernel<<<static_cast<unsigned>(tiles * a.sizes.sequences * a.sizes.kv_heads), 32 * Memory::kWarps,
           sizeof(Memory), stream>>>(a, tensors);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t attention_forward_work(const AttentionShape& shape) {
  return std::is_same_v<T, bf16> ? hopper::attention_forward_work(shape) : 0;
}

template <class T>
void attention_forward(T* o, float* lse, const T* q, const T* k, const T* v,
                       const std::int32_t* first_key, const AttentionShape& s,
                       const Dropout& dropout, void* work, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const AttentionArguments a(s, first_key, dropout, sizeof(T), o, q, k, v);
  if constexpr (std::is_same_v<T, bf16>)
    if (a.whole_units && hopper::attention_fits(s) && hopper_kernels())
      return hopper::attention_forward(o, lse, q, k, v, first_key, s, dropout, work, stream);
  with_channels(s.head_dim, [&]<int kHeadDim>() {
    launch<kHeadDim, T>(a, {o, lse, q, k, v}, stream);
  });
}

template std::size_t attention_forward_work<float>(const AttentionShape&);
template std::size_t attention_forward_work<bf16>(const AttentionShape&);
template std::size_t attention_forward_work<__half>(const AttentionShape&);
template void attention_forward(float*, float*, const float*, const float*, const float*,
                                const std::int32_t*, const AttentionShape&, const Dropout&, void*,
                                cudaStream_t);
template void attention_forward(bf16*, float*, const bf16*, const bf16*, const bf16*,
                                const std::int32_t*, const AttentionShape&, const Dropout&, void*,
                                cudaStream_t);
template void attention_forward(__half*, float*, const __half*, const __half*, const __half*,
                                const std::int32_t*, const AttentionShape&, const Dropout&, void*,
                                cudaStream_t);

}  // namespace mt::cuda
