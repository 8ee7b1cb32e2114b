#include "kernels/qkv.h"

#include <algorithm>
#include <cstring>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class T>
void copy_row(T* __restrict__ to, const T* __restrict__ from, std::int64_t count) {
  std::int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) std::memcpy(to + c, from + c, kLanes * sizeof(T));
  for (; c < count; ++c) to[c] = from[c];
}

// Calls copy(part of qkv, part of q, k or v, channels) for each group's queries, key and value.
template <class Qkv, class T, class Copy>
void for_parts(Qkv* qkv, T* q, T* k, T* v, const QkvShape& s, const Copy& copy) {
  const std::int64_t d = s.head_dim, queries = s.heads / std::max<std::int64_t>(1, s.groups) * d;
  const std::int64_t width = s.groups * (queries + 2 * d);
  for_blocks(s.tokens, rows_per_block(width), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first * s.groups; i < last * s.groups; ++i) {  // token and group
      Qkv* part = qkv + i * (queries + 2 * d);
      copy(part, q + i * queries, queries);
      copy(part + queries, k + i * d, d);
      copy(part + queries + d, v + i * d, d);
    }
  });
}

}  // namespace

template <class T>
void qkv_split(T* q, T* k, T* v, const T* qkv, const QkvShape& shape) {
  for_parts(qkv, q, k, v, shape,
            [](const T* from, T* to, std::int64_t n) { copy_row(to, from, n); });
}

template <class T>
void qkv_merge(T* qkv, const T* q, const T* k, const T* v, const QkvShape& shape) {
  for_parts(qkv, q, k, v, shape,
            [](T* to, const T* from, std::int64_t n) { copy_row(to, from, n); });
}

template void qkv_split(float*, float*, float*, const float*, const QkvShape&);
template void qkv_split(double*, double*, double*, const double*, const QkvShape&);
template void qkv_merge(float*, const float*, const float*, const float*, const QkvShape&);
template void qkv_merge(double*, const double*, const double*, const double*, const QkvShape&);

}  // namespace mt::cpu
