// Attention's forward where a key head has at most 16 queries, as when a text is continued: reading
// the keys takes the time, so blocks share them out.  Each block walks a part of the keys, each of
// its warps every so many tiles of 16 on its own, with the next one on its way, and leaves the
// part's output and lse; combine_kernel joins the parts.  How many parts there are depends on the
// shape alone, which keys they have on the lengths on the device.
#include <algorithm>

#include "kernels/attention_rows.cuh"
#include "kernels/cuda_check.h"

namespace mt::cuda {
namespace {

constexpr int kKeys = 16;  // of a tile

template <class T, int kHeadDim>
struct Shared {
  // As many as leave room for several blocks on a multiprocessor.
  static constexpr int kWarps = std::clamp(1024 / kHeadDim / static_cast<int>(sizeof(T)), 1, 4);
  struct Stage {
    Tile<T, kKeys, kHeadDim> k, v;
  };
  Tile<T, 16, kHeadDim> q;
  union {
    Stage stages[kWarps][2];
    float o[kWarps][16][row_stride<float>(kHeadDim)];
  };
  float max[kWarps][16], sum[kWarps][16];
  typename Left<T, kKeys>::Strip strips[kWarps];
};

// Where a part's results go: of each row of all heads, [parts, head_dim] and [parts].
struct Parts {
  float *o, *lse;
  int count;
};

// The warp's tiles [begin, end) of every kWarps-th.
template <int kWarps, class T, class Stage, class Rows>
__device__ void walk(const AttentionForward<T>& t, const HeadGroup& at, Stage (&stages)[2],
                     const T* q, typename Left<T, kKeys>::Strip& strip, int begin, int end,
                     Rows& rows) {
  const AttentionArguments& a = at.a;
  const auto load = [&](int n) {
    Stage& stage = stages[n / kWarps % 2];
    const auto load_tile = [&](auto& tile, const T* from) {
      tile.load(
          at.sizes.kv_length - n * kKeys, a.head_dim, a.whole_units,
          [&](int i) { return from + at.key_place(n * kKeys + i); }, lane(), 32);
    };
    load_tile(stage.k, t.k);
    load_tile(stage.v, t.v);
    copies_commit();
  };
  load(begin);
  for (int n = begin; n < end; n += kWarps) {
    copies_wait();
    __syncwarp();
    if (n + kWarps < end) load(n + kWarps);
    Stage& stage = stages[n / kWarps % 2];
    rows.multiply_keys(q, stage.k.row(0));
    rows.mask(n * kKeys);
    rows.softmax();
    rows.multiply_values(stage.v.row(0), strip);
    __syncwarp();  // it has been read
  }
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim>::kWarps)
    part_kernel(const AttentionArguments a, const AttentionForward<T> t, const Parts parts) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kWarps = Memory::kWarps;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const int groups = a.sizes.sequences * a.sizes.kv_heads, part = blockIdx.x / groups;
  const HeadGroup at(a, blockIdx.x % groups);
  const int warp = threadIdx.x / 32, count = at.rows();
  shared.q.load(count, a.head_dim, a.whole_units, [&](int i) { return t.q + at.place(i); });
  copies_commit();
  copies_wait();
  __syncthreads();

  const int begin = at.first(0) / kKeys, end = at.last(count - 1) / kKeys + 1;
  const int tiles = (end - begin + parts.count - 1) / parts.count;
  const int own_begin = begin + part * tiles + warp;
  WarpRows<kHeadDim, kKeys> rows(at, 0);
  if (own_begin < min(end, begin + (part + 1) * tiles))
    walk<kWarps>(t, at, shared.stages[warp], shared.q.row(0), shared.strips[warp], own_begin,
                 min(end, begin + (part + 1) * tiles), rows);
  rows.finish_sums();
  __syncthreads();  // all stages have been read
#pragma unroll
  for (int i = 0; i < kHeadDim / 4; ++i)
    store_pair(&shared.o[warp][lane() / 4 + i % 2 * 8][i / 2 * 8 + lane() % 4 * 2], rows.o[2 * i],
               rows.o[2 * i + 1]);
  for (int r = 0; r < 2; ++r)
    if (lane() % 4 == 0) {
      shared.max[warp][lane() / 4 + 8 * r] = rows.max[r] * a.sizes.scale * kLog2e;
      shared.sum[warp][lane() / 4 + 8 * r] = rows.sum[r];
    }
  __syncthreads();

  for (int i = threadIdx.x; i < count * kHeadDim; i += blockDim.x) {
    const int row = i / kHeadDim, c = i % kHeadDim;
    float top = -kInfinity, total = 0, sum = 0;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, shared.max[w][row]);
    for (int w = 0; w < kWarps && top > -kInfinity; ++w) {
      const float weight = exp2_approx(shared.max[w][row] - top);
      total += weight * shared.sum[w][row];
      sum += weight * shared.o[w][row][c];
    }
    const std::int64_t place = at.lse_place(row);
    const float lse = top / kLog2e + logf(total);
    if (parts.count == 1) {
      if (c < a.head_dim) t.o[at.place(row) + c] = static_cast<T>(sum / total);
      if (c == 0) t.lse[place] = lse;
    } else {
      if (c < a.head_dim) parts.o[(place * parts.count + part) * a.head_dim + c] = sum / total;
      if (c == 0) parts.lse[place * parts.count + part] = total > 0 ? lse : -kInfinity;
    }
  }
}

// A warp for each row: o = sum_part exp(lse_part - lse) o_part.
template <class T>
__global__ void combine_kernel(const AttentionArguments a, const AttentionForward<T> t,
                               const Parts parts) {
  const AttentionSizes& s = a.sizes;
  const std::int64_t place = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (place >= std::int64_t{s.sequences} * s.heads * s.q_length) return;
  const float* const lse = parts.lse + place * parts.count;
  float top = -kInfinity, total = 0;
  for (int part = 0; part < parts.count; ++part) top = fmaxf(top, lse[part]);
  for (int part = 0; part < parts.count; ++part) total += exp_approx(lse[part] - top);
  const std::int64_t query = place % s.q_length, head = place / s.q_length % s.heads;
  const std::int64_t sequence = place / s.q_length / s.heads;
  T* const to = t.o + ((sequence * s.q_length + query) * s.heads + head) * a.head_dim;
  for (int c = lane(); c < a.head_dim; c += 32) {
    float sum = 0;
    for (int part = 0; part < parts.count; ++part)
      if (lse[part] > -kInfinity)
        sum += exp_approx(lse[part] - top) * parts.o[(place * parts.count + part) * a.head_dim + c];
    to[c] = static_cast<T>(sum / total);
  }
  if (lane() == 0) t.lse[place] = top + logf(total);
}

// Blocks for two on each multiprocessor of a large GPU, none with less than 128 keys.
int part_count(const AttentionShape& s) {
  const std::int64_t groups = s.sequences * s.kv_heads;
  return static_cast<int>(
      std::clamp<std::int64_t>((264 + groups - 1) / groups, 1, (s.kv_length + 127) / 128));
}

template <int kHeadDim, class T>
void launch(const AttentionArguments& a, const AttentionForward<T>& t, const Parts& parts,
            cudaStream_t stream) {
  using Memory = Shared<T, kHeadDim>;
  static_assert(sizeof(Memory) <= kMostSharedBytes);
  const auto kernel = part_kernel<T, kHeadDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
  kernel<<<static_cast<unsigned>(parts.count * a.sizes.sequences * a.sizes.kv_heads),
           32 * Memory::kWarps, sizeof(Memory), stream>>>(a, t, parts);
  check(cudaGetLastError());
}

}  // namespace

std::size_t attention_few_rows_work(const AttentionShape& s) {
  const int parts = part_count(s);
  const auto rows = static_cast<std::size_t>(s.sequences * s.heads * s.q_length);
  return parts == 1 ? 0 : rows * parts * static_cast<std::size_t>(s.head_dim + 1) * sizeof(float);
}

template <class T>
void attention_few_rows(const AttentionArguments& a, const AttentionForward<T>& t,
                        const AttentionShape& s, void* work, cudaStream_t stream) {
  const std::int64_t rows = s.sequences * s.heads * s.q_length;
  const int count = part_count(s);
  float* const lse = static_cast<float*>(work) + rows * count * s.head_dim;
  const Parts parts{static_cast<float*>(work), lse, count};
  with_channels(s.head_dim, [&]<int kHeadDim>() { launch<kHeadDim, T>(a, t, parts, stream); });
  if (count == 1) return;
  combine_kernel<<<static_cast<unsigned>((rows + 3) / 4), 128, 0, stream>>>(a, t, parts);
  check(cudaGetLastError());
}

template void attention_few_rows(const AttentionArguments&, const AttentionForward<float>&,
                                 const AttentionShape&, void*, cudaStream_t);
template void attention_few_rows(const AttentionArguments&, const AttentionForward<bf16>&,
                                 const AttentionShape&, void*, cudaStream_t);
template void attention_few_rows(const AttentionArguments&, const AttentionForward<__half>&,
                                 const AttentionShape&, void*, cudaStream_t);

}  // namespace mt::cuda
