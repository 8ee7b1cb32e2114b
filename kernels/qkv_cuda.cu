#include "kernels/qkv.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda_check.h"
#include "kernels/pack.cuh"

namespace mt::cuda {
namespace {

constexpr int kMostThreads = 256;

// The fused rows and the separate ones, of which the const ones are read.
template <class Fused, class Separate>
struct Rows {
  Fused* qkv;
  Separate *q, *k, *v;
};

// A block works on a token, a pack at a time.
template <int N, class Fused, class Separate>
__global__ __launch_bounds__(kMostThreads) void qkv_kernel(Rows<Fused, Separate> rows, int heads,
                                                           int groups, int head_dim) {
  const std::int64_t token = blockIdx.x;
  const int per_group = heads / groups, of_head = head_dim / N;
  Fused* row = rows.qkv + token * (heads + 2 * groups) * head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < (heads + 2 * groups) * of_head;
       i += static_cast<int>(blockDim.x)) {
    const int slot = i / of_head, group = slot / (per_group + 2), n = slot % (per_group + 2);
    Separate* separate = n < per_group ? rows.q + (token * heads + group * per_group + n) * head_dim
                         : n == per_group ? rows.k + (token * groups + group) * head_dim
                                          : rows.v + (token * groups + group) * head_dim;
    Fused* fused = row + slot * head_dim;
    const int c = i % of_head * N;
    if constexpr (std::is_const_v<Fused>)
      store(separate + c, load<N>(fused + c));
    else
      store(fused + c, load<N>(separate + c));
  }
}

template <class Fused, class Separate>
void launch(const Rows<Fused, Separate>& rows, const QkvShape& s, cudaStream_t stream) {
  if (s.tokens * s.groups * s.head_dim == 0) return;
  constexpr int kWidest = kWide<std::remove_const_t<Fused>>;
  const bool wide = aligned(rows.qkv, rows.q, rows.k, rows.v) && s.head_dim % kWidest == 0;
  with_width<kWidest>(wide, [&]<int N>() {
    const std::int64_t units = (s.heads + 2 * s.groups) * s.head_dim / N;
    const auto threads =
        static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(units, 32) * 32, 32, kMostThreads));
    qkv_kernel<N><<<static_cast<unsigned>(s.tokens), threads, 0, stream>>>(
        rows, static_cast<int>(s.heads), static_cast<int>(s.groups), static_cast<int>(s.head_dim));
  });
  check(cudaGetLastError());
}

}  // namespace

template <class T>
void qkv_split(T* q, T* k, T* v, const T* qkv, const QkvShape& shape, cudaStream_t stream) {
  launch(Rows<const T, T>{qkv, q, k, v}, shape, stream);
}
template <class T>
void qkv_merge(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape,
               cudaStream_t stream) {
  launch(Rows<T, const T>{qkv, q, k, v}, shape, stream);
}

#define INSTANTIATE(T)                                                          \
  template void qkv_split(T*, T*, T*, const T*, const QkvShape&, cudaStream_t); \
  template void qkv_merge(T*, const T*, const T*, const T*, const QkvShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
