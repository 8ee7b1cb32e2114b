// Attention's forward for heads wider than 256 channels, such as the latents that all heads of
// latent attention find in a cache (cached_latents.h).  A block holds 16 rows; each of its warps
// has a share of their channels, and of those of the tiles of keys that it walks: what its share
// adds to the scores goes to the others by shared memory, and then each has all of them, and its
// share of o.  One more token of a sequence has its keys shared out by parts, as in
// attention_few_rows.cu, so that a sequence's bits depend neither on what else is in the batch nor
// on the cache's capacity.

#include "kernels/attention_rows.cuh"
#include "kernels/cached_latents.h"
#include "kernels/dependent.cuh"

namespace mt::cuda {
namespace {

constexpr int kWarps = 4, kShare = 144;  // channels of a warp
static_assert(kWarps * kShare == kWidestHead && kWidestHead >= kWidestLatents);
constexpr int kPart = 256;  // keys

template <class T, Code kOf = kCode>
struct Shared {
  static constexpr int kKeys = (sizeof(T) == 4 ? 16 : 32) / (kRoomy<kOf> ? 1 : 2);
  Tile<T, 16, kShare> q[kWarps];  // and o
  Tile<T, kKeys, kShare> k[kWarps];
  float scores[kWarps][kKeys / 2][32];
  typename Left<T, kKeys>::Strip strips[kWarps];
};

// This warp's share of rows, of which there are `count`, from at(i); zeros elsewhere.
template <class Tile, class At>
__device__ void load_share(Tile& tile, int rows, int count, int channels, bool whole_units,
                           const At& at) {
  constexpr int kUnits = kShare / Tile::kUnit;
  const int first = static_cast<int>(threadIdx.x) / 32 * kShare;
  for (int i = lane(); i < rows * kUnits; i += 32) {
    const int r = i / kUnits, c = i % kUnits * Tile::kUnit;
    Tile::load_unit(tile.row(r) + c, r < count ? at(r) + first : nullptr, c, channels - first,
                    whole_units);
  }
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps)
    wide_kernel(const AttentionArguments a, const AttentionForward<T> t,
                const AttentionParts parts) {
  using Memory = Shared<T>;
  constexpr int kKeys = Memory::kKeys;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const int groups = a.sizes.sequences * a.sizes.kv_heads, warp = threadIdx.x / 32;
  const int part = blockIdx.x / groups % parts.count, tile = blockIdx.x / groups / parts.count;
  const HeadGroup at(a, blockIdx.x % groups);
  const int first_row = tile * 16, count = min(16, at.rows() - first_row),
            last_row = first_row + count - 1, channels = a.sizes.head_dim;
  int first = at.first(first_row), last = at.last(last_row);
  if (parts.count > 1) {
    first = max(first, part * kPart);
    last = min(last, (part + 1) * kPart - 1);
  }
  if (first > last) {  // a part that this sequence does not reach, or no longer sees
    if (threadIdx.x < count)
      parts.lse[at.lse_place(first_row + threadIdx.x) * parts.count + part] = -kInfinity;
    return;
  }
  load_share(shared.q[warp], 16, count, channels, a.whole_units,
             [&](int i) { return t.q + at.q_place(first_row + i); });
  // Tiles [begin_all, end_all) hold only keys that every row sees.
  const int begin_all = (at.first(last_row) + kKeys - 1) / kKeys;
  const int end_all = (at.last(first_row) + 1) / kKeys;
  WarpRows<kShare, kKeys> rows(at, first_row);
  for (int n = first / kKeys; n <= last / kKeys; ++n) {
    const T* const keys = t.k + at.key_place(n * kKeys);
    __syncwarp();  // the tile before has been read
    load_share(shared.k[warp], kKeys, at.sizes.kv_length - n * kKeys, channels, a.whole_units,
               [&](int i) { return keys + i * at.sizes.kv_row; });
    copies_commit();
    copies_wait();
    __syncwarp();
    rows.multiply_keys(shared.q[warp].row(0), shared.k[warp].row(0));
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) shared.scores[warp][i][lane()] = rows.scores[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      rows.scores[i] = 0;
      for (int w = 0; w < kWarps; ++w) rows.scores[i] += shared.scores[w][i][lane()];
    }
    __syncthreads();  // the scores have been read
    if (n < begin_all || n >= end_all) rows.mask(n * kKeys);
    rows.softmax();
    rows.multiply_values(shared.k[warp].row(0), shared.strips[warp]);
  }
  rows.finish_sums();

  const int share = warp * kShare;
  const float factor[2] = {1 / rows.sum[0], 1 / rows.sum[1]};
  for (int r = 0; r < 2; ++r) {
    const int row = rows.row + 8 * r;
    if (warp > 0 || lane() % 4 > 0 || row > last_row) continue;
    const float lse = rows.max[r] * a.sizes.scale + logf(rows.sum[r]);
    (parts.count == 1 ? t.lse : parts.lse)[at.lse_place(row) * parts.count + part] =
        rows.sum[r] > 0 ? lse : -kInfinity;
  }
  if (parts.count == 1)
    return store_rows<kShare>(rows.o, factor, shared.q[warp], 0, count, channels - share,
                              a.whole_units,
                              [&](int i) { return t.o + at.o_place(first_row + i) + share; });
#pragma unroll
  for (int i = 0; i < kShare / 2; ++i) {
    const int row = rows.row + i / 2 % 2 * 8, c = share + i / 4 * 8 + lane() % 4 * 2 + i % 2;
    if (row <= last_row && c < channels)
      parts.o[(at.lse_place(row) * parts.count + part) * channels + c] =
          rows.o[i] * factor[i / 2 % 2];
  }
}

int part_count(const AttentionShape& s) {
  return s.q_length > 1 ? 1 : static_cast<int>((s.kv_length + kPart - 1) / kPart);
}

}  // namespace

std::size_t attention_wide_work(const AttentionShape& s) {
  return attention_parts_work(s, part_count(s));
}

template <class T>
void attention_wide(const AttentionArguments& a, const AttentionForward<T>& t,
                    const AttentionShape& s, void* work, cudaStream_t stream) {
  const AttentionParts parts(s, part_count(s), work);
  with_code([&]<Code kOf>() {
    using Memory = Shared<T, kOf>;
    static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
    const std::int64_t tiles = (s.q_length * s.group() + 15) / 16;
    check(cudaFuncSetAttribute(wide_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Memory)));
    wide_kernel<T><<<static_cast<unsigned>(tiles * parts.count * s.sequences * s.kv_heads),
                     32 * kWarps, sizeof(Memory), stream>>>(a, t, parts);
  });
  check(cudaGetLastError());
  attention_join(a, t, s, parts, stream);
}

template void attention_wide(const AttentionArguments&, const AttentionForward<float>&,
                             const AttentionShape&, void*, cudaStream_t);
template void attention_wide(const AttentionArguments&, const AttentionForward<bf16>&,
                             const AttentionShape&, void*, cudaStream_t);
template void attention_wide(const AttentionArguments&, const AttentionForward<__half>&,
                             const AttentionShape&, void*, cudaStream_t);

}  // namespace mt::cuda
