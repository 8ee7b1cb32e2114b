// As attention's forward (attention_cuda.cu), without values: a block holds a tile of rows, and the
// next keys are on their way while these meet Q.
#include "kernels/attention_rows.cuh"
#include "kernels/cuda_check.h"
#include "kernels/largest_score.h"
#include "kernels/reduce.cuh"

namespace mt::cuda {
namespace {

template <class T, int kHeadDim, Code kOf = kCode>
struct Shared : BlockSizes<T, kHeadDim, kOf> {
  using Sizes = BlockSizes<T, kHeadDim, kOf>;
  Tile<T, Sizes::kRows, kHeadDim> q;
  Tile<T, Sizes::kKeys, kHeadDim> k[2];
};

// Bits of numbers not below zero have their order, those of others the reverse, above all of them.
__device__ void raise(double* to, double value) {
  if (!(value > *static_cast<volatile double*>(to))) return;
  if (value >= 0)
    atomicMax(reinterpret_cast<long long*>(to), __double_as_longlong(value));
  else
    atomicMin(reinterpret_cast<unsigned long long*>(to),
              static_cast<unsigned long long>(__double_as_longlong(value)));
}

template <class T, int kHeadDim>
__global__ void __launch_bounds__(32 * Shared<T, kHeadDim>::kWarps)
    largest_kernel(const AttentionArguments a, const T* q, const T* k, double* largest) {
  using Memory = Shared<T, kHeadDim>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kThreads = 32 * Memory::kWarps;
  extern __shared__ __align__(16) unsigned char bytes[];
  Memory& shared = *reinterpret_cast<Memory*>(bytes);
  const int groups = a.sizes.sequences * a.sizes.kv_heads;
  const HeadGroup at(a, blockIdx.x % groups);
  const int tiles = gridDim.x / groups;
  const int first_row = (tiles - 1 - blockIdx.x / groups) * kRows;  // the longest first
  const int last_row = min(first_row + kRows, at.rows()) - 1;
  const int begin = at.first(first_row) / kKeys, end = at.last(last_row) / kKeys + 1;
  load_queries<kThreads>(shared.q, q, at, first_row);
  load_keys<kThreads>(shared.k[begin % 2], k, at, begin * kKeys);
  copies_commit();
  const int warp = threadIdx.x / 32;
  WarpRows<kHeadDim, kKeys> w(at, first_row + warp * 16);
  for (int n = begin; n < end; ++n) {
    copies_wait();
    __syncthreads();  // these keys are there, and those before have been read
    if (n + 1 < end) load_keys<kThreads>(shared.k[(n + 1) % 2], k, at, (n + 1) * kKeys);
    copies_commit();
    w.multiply_keys(shared.q.row(warp * 16), shared.k[n % 2].row(0));
    w.mask(n * kKeys);
    w.for_scores(0, [&](float& score, int r, int) { w.max[r] = fmaxf(w.max[r], score); });
  }
  for (int r = 0; r < 2; ++r) {
    const float most = over_lanes(w.max[r], 4, [](float x, float y) { return fmaxf(x, y); });
    const int row = w.row + 8 * r;
    if (lane() % 4 == 0 && row <= last_row) raise(largest + at.head(row), a.sizes.scale * most);
  }
}

}  // namespace

template <class T>
void add_largest_scores(double* largest, const T* q, const T* k, const std::int32_t* first_key,
                        const AttentionShape& s, cudaStream_t stream) {
  if (s.sequences * s.heads * s.q_length == 0) return;
  const AttentionArguments a(s, first_key, {}, sizeof(T), q, k);
  with_channels(s.head_dim, [&]<int kHeadDim>() {
    with_code([&]<Code kOf>() {
      using Memory = Shared<T, kHeadDim, kOf>;
      static_assert(sizeof(Memory) <= kSharedBytes<kOf>);
      const int rows = a.sizes.q_length * a.sizes.group();
      const int tiles = (rows + Memory::kRows - 1) / Memory::kRows;
      const auto kernel = largest_kernel<T, kHeadDim>;
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 sizeof(Memory)));
      kernel<<<static_cast<unsigned>(tiles * a.sizes.sequences * a.sizes.kv_heads),
               32 * Memory::kWarps, sizeof(Memory), stream>>>(a, q, k, largest);
    });
  });
  check(cudaGetLastError());
}

template void add_largest_scores(double*, const float*, const float*, const std::int32_t*,
                                 const AttentionShape&, cudaStream_t);
template void add_largest_scores(double*, const bf16*, const bf16*, const std::int32_t*,
                                 const AttentionShape&, cudaStream_t);
template void add_largest_scores(double*, const __half*, const __half*, const std::int32_t*,
                                 const AttentionShape&, cudaStream_t);

}  // namespace mt::cuda
