// kernels/latent_heads.h: between what the projections of latent attention make and the queries,
// keys and values of heads (DeepSeek-AI: arXiv:2405.04434, eq. 9 to 19).
//   q[t,h] = [q_rows[t,h] from `fixed` on | q_rows[t,h] before it | zeros]
//   k[t,h] = [turning[t] | kv_rows[t,h] before `fixed` | zeros]
//   v[t,h] = [kv_rows[t,h] from `fixed` on | zeros]
// The channels that turn by positions come first, so that rope.h turns them where they are: scores
// do not depend on the order of channels.  A token's turning key is all its heads'.
// q_rows: [tokens, heads, fixed + turning];  kv_rows: [tokens, heads, fixed + values]
// turning: [tokens, turning];  q, k, v: [tokens, heads, width], width the larger of fixed + turning
//          and values; forward makes no q if it is null
// Backward undoes it: zeros' gradients are passed over, and d_turning is the sum of all heads' in
// their order.
//
// split_columns parts rows of x, [rows, first + second], into a, [rows, first], and b, which may be
// null; merge_columns puts them together again, zeros for a null b.
// T: float or double; on the GPU float, bf16 or fp16, sums in f32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct LatentHeads {
  std::int64_t tokens = 0, heads = 0, fixed = 0, turning = 0, values = 0;  // channels of a head

  constexpr std::int64_t q_width() const { return fixed + turning; }
  constexpr std::int64_t kv_width() const { return fixed + values; }
  constexpr std::int64_t width() const { return std::max(q_width(), values); }
};

template <class T>
struct LatentParts {  // tensors of the above, or their gradients
  T *q, *k, *v;
};
template <class T>
struct LatentRows {
  T *q, *kv, *turning;
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void latent_heads_forward(const LatentParts<T>& heads, const LatentRows<const T>& rows,
                          const LatentHeads& shape);
template <class T>
void latent_heads_backward(const LatentRows<T>& rows, const LatentParts<const T>& heads,
                           const LatentHeads& shape);
template <class T>
void split_columns(T* a, T* b, const T* x, std::int64_t rows, std::int64_t first,
                   std::int64_t second);
template <class T>
void merge_columns(T* x, const T* a, const T* b, std::int64_t rows, std::int64_t first,
                   std::int64_t second);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void latent_heads_forward(const LatentParts<T>& heads, const LatentRows<const T>& rows,
                          const LatentHeads& shape, cudaStream_t stream);
template <class T>
void latent_heads_backward(const LatentRows<T>& rows, const LatentParts<const T>& heads,
                           const LatentHeads& shape, cudaStream_t stream);
template <class T>
void split_columns(T* a, T* b, const T* x, std::int64_t rows, std::int64_t first,
                   std::int64_t second, cudaStream_t stream);
template <class T>
void merge_columns(T* x, const T* a, const T* b, std::int64_t rows, std::int64_t first,
                   std::int64_t second, cudaStream_t stream);
}  // namespace mt::cuda
