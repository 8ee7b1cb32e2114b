#include "kernels/qkv.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda_check.h"
#include "kernels/turn.cuh"

namespace mt::cuda {
namespace {

constexpr int kMostThreads = 256;

// The fused rows and the separate ones, of which the const ones are read.
template <class Fused, class Separate>
struct Rows {
  Fused* qkv;
  Separate *q, *k, *v;
};

// A block works on a token: units of its queries and keys, then of its values.
template <int N, class Fused, class Separate>
__global__ __launch_bounds__(kMostThreads) void qkv_kernel(Rows<Fused, Separate> rows, Turn turn,
                                                           int heads, int groups, int head_dim) {
  const std::int64_t token = blockIdx.x;
  const int per_group = heads / groups, of_head = turn.units<N>(head_dim);
  const int turned = (heads + groups) * of_head, of_value = Turn{}.units<N>(head_dim);
  Fused* row = rows.qkv + token * (heads + 2 * groups) * head_dim;
  const auto move = [&](Fused* fused, Separate* separate, int unit, const Turn& how) {
    if constexpr (std::is_const_v<Fused>)
      how.operator()<N>(separate, fused, head_dim, token, unit);
    else
      how.operator()<N>(fused, separate, head_dim, token, unit);
  };
  for (int i = static_cast<int>(threadIdx.x); i < turned + groups * of_value;
       i += static_cast<int>(blockDim.x)) {
    if (i < turned) {
      const int slot = i / of_head, group = slot / (per_group + 1), n = slot % (per_group + 1);
      Separate* separate = n < per_group
                               ? rows.q + (token * heads + group * per_group + n) * head_dim
                               : rows.k + (token * groups + group) * head_dim;
      move(row + (group * (per_group + 2) + n) * head_dim, separate, i % of_head, turn);
    } else {
      const int group = (i - turned) / of_value;
      move(row + (group * (per_group + 2) + per_group + 1) * head_dim,
           rows.v + (token * groups + group) * head_dim, (i - turned) % of_value, Turn{});
    }
  }
}

template <class Fused, class Separate>
void launch(const Rows<Fused, Separate>& rows, const QkvShape& s, const Turn& turn,
            cudaStream_t stream) {
  if (s.tokens * s.groups * s.head_dim == 0) return;
  constexpr int kWidest = kWide<std::remove_const_t<Fused>>;
  const bool wide = aligned(rows.qkv, rows.q, rows.k, rows.v) && fits(turn, s.head_dim, kWidest);
  with_width<kWidest>(wide, [&]<int N>() {
    const std::int64_t units = (s.heads + 2 * s.groups) * ceil_div(s.head_dim, 2 * N);
    const auto threads =
        static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(units, 32) * 32, 32, kMostThreads));
    qkv_kernel<N><<<static_cast<unsigned>(s.tokens), threads, 0, stream>>>(
        rows, turn, static_cast<int>(s.heads), static_cast<int>(s.groups),
        static_cast<int>(s.head_dim));
  });
  check(cudaGetLastError());
}

Turn make_turn(const float* table, const RopeShape& rope, float sign) {
  return {table, rope.seq_length, static_cast<int>(rope.rotary_dim / 2), rope.interleaved, sign};
}

}  // namespace

template <class T>
void qkv_split(T* q, T* k, T* v, const T* qkv, const QkvShape& shape, cudaStream_t stream) {
  launch(Rows<const T, T>{qkv, q, k, v}, shape, Turn{}, stream);
}
template <class T>
void qkv_merge(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape,
               cudaStream_t stream) {
  launch(Rows<T, const T>{qkv, q, k, v}, shape, Turn{}, stream);
}
template <class T>
void qkv_split_rope(T* q, T* k, T* v, const T* qkv, const QkvShape& shape, const float* table,
                    const RopeShape& rope, cudaStream_t stream) {
  launch(Rows<const T, T>{qkv, q, k, v}, shape, make_turn(table, rope, 1), stream);
}
template <class T>
void qkv_merge_rope(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape,
                    const float* table, const RopeShape& rope, cudaStream_t stream) {
  launch(Rows<T, const T>{qkv, q, k, v}, shape, make_turn(table, rope, -1), stream);
}

#define INSTANTIATE(T)                                                                          \
  template void qkv_split(T*, T*, T*, const T*, const QkvShape&, cudaStream_t);                 \
  template void qkv_merge(T*, const T*, const T*, const T*, const QkvShape&, cudaStream_t);     \
  template void qkv_split_rope(T*, T*, T*, const T*, const QkvShape&, const float*,             \
                               const RopeShape&, cudaStream_t);                                 \
  template void qkv_merge_rope(T*, const T*, const T*, const T*, const QkvShape&, const float*, \
                               const RopeShape&, cudaStream_t)
INSTANTIATE(float);
INSTANTIATE(bf16);
INSTANTIATE(fp16);

}  // namespace mt::cuda
