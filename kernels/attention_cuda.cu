// Attention's forward for every GPU, and the choice between it and Hopper's.  A block holds a tile
// of rows (attention_tile.cuh), 16 for each warp, and walks the tiles of keys that they see with a
// running maximum and sum (attention.h).  V is on its way while Q meets K, and the next K while P
// meets V.
#include <algorithm>

#include "kernels/attention_rows.cuh"
#include "kernels/cuda_check.h"

namespace mt::cuda {
namespace {

template <class T, int kHeadDim, Code kOf = kCode>
struct Shared : BlockSizes<T, kHeadDim, kOf> {
  using Sizes = BlockSizes<T, kHeadDim, kOf>;
  Tile<T, Sizes::kRows, kHeadDim> q;  // and o
  Tile<T, Sizes::kKeys, kHeadDim> k, v;
  typename Left<T, Sizes::kKeys>::Strip strips[Sizes::kWarps];
};

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim>::kWarps, kHeadDim == 64 ? 2 : 1)
    forward_kernel(const AttentionArguments a, const AttentionForward<T> t) {
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

  constexpr int kThreads = 32 * Memory::kWarps;
  load_queries<kThreads>(shared.q, t.q, at, first_row);
  load_keys<kThreads>(shared.k, t.k, at, begin * kKeys);
  copies_commit();

  const int warp = threadIdx.x / 32;
  const std::uint32_t sample = a.dropout ? a.keep.sample(at.sequence) : 0;
  WarpRows<kHeadDim, kKeys> w(at, first_row + warp * 16);
  for (int n = begin; n < end; ++n) {
    copies_wait();
    __syncthreads();  // K is there, and V has been read
    load_keys<kThreads>(shared.v, t.v, at, n * kKeys);
    copies_commit();
    w.multiply_keys(shared.q.row(warp * 16), shared.k.row(0));
    if (a.sizes.bias) w.add_bias(n * kKeys);
    if (a.sizes.softcap > 0) w.cap();
    if (n < begin_all || n >= end_all) w.mask(n * kKeys);
    w.softmax();
    if (a.dropout) w.drop(n * kKeys, sample);
    copies_wait();
    __syncthreads();  // V is there, and K has been read
    if (n + 1 < end) load_keys<kThreads>(shared.k, t.k, at, (n + 1) * kKeys);
    copies_commit();
    w.multiply_values(shared.v.row(0), shared.strips[warp]);
  }

  w.finish_sums();
  const float factor[2] = {1 / w.sum[0], 1 / w.sum[1]};
  for (int r = 0; r < 2; ++r) {
    const int row = w.row + 8 * r;
    if (lane() % 4 == 0 && row <= last_row)
      t.lse[at.lse_place(row)] = w.max[r] * a.sizes.scale + logf(w.sum[r]);
  }
  store_rows<kHeadDim>(w.o, factor, shared.q, warp * 16, rows - warp * 16, a.sizes.head_dim,
                       a.whole_units,
                       [&](int i) { return t.o + at.o_place(first_row + warp * 16 + i); });
}

template <int kHeadDim, class T>
void launch(const AttentionArguments& a, const AttentionForward<T>& tensors, cudaStream_t stream) {
  with_code([&]<Code kOf>() {
    using Memory = Shared<T, kHeadDim, kOf>;
    static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
    const int rows = a.sizes.q_length * a.sizes.group();
    const int tiles = (rows + Memory::kRows - 1) / Memory::kRows;
    const auto kernel = forward_kernel<T, kHeadDim>;
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Memory)));
    kernel<<<static_cast<unsigned>(tiles * a.sizes.sequences * a.sizes.kv_heads),
             32 * Memory::kWarps, sizeof(Memory), stream>>>(a, tensors);
  });
  check(cudaGetLastError());
}

}  // namespace

template <class T>
std::size_t attention_forward_work(const AttentionShape& s) {
  if (is_wide(s)) return attention_wide_work(s);
  const std::size_t few = few_rows(s) ? attention_few_rows_work(s) : 0;
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (hopper::attention_fits(s)) return std::max(few, hopper::attention_forward_work(s));
  return few;
}

template <class T>
void attention_forward(T* o, float* lse, const T* q, const T* k, const T* v,
                       const std::int32_t* first_key, const AttentionShape& s,
                       const Dropout& dropout, void* work, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const AttentionArguments a(s, first_key, dropout, sizeof(T), o, q, k, v);
  const AttentionForward<T> t{o, lse, q, k, v};
  if (is_wide(s) && !a.dropout) return attention_wide(a, t, s, work, stream);
  if (few_rows(s) && !a.dropout) return attention_few_rows(a, t, s, work, stream);
  if constexpr (kHopper && std::is_same_v<T, bf16>)
    if (a.whole_units && hopper::attention_fits(s) && hopper_kernels())
      return hopper::attention_forward(o, lse, q, k, v, first_key, s, dropout, work, stream);
  with_channels(s.head_dim, [&]<int kHeadDim>() { launch<kHeadDim, T>(a, t, stream); });
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
