#include "kernels/latent_heads.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void latent_heads_forward(const LatentParts<T>& heads, const LatentRows<const T>& rows,
                          const LatentHeads& s) {
  const std::int64_t width = s.width();
  for_blocks(s.tokens, rows_per_block(s.heads * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {  // token and head
      const T *kv_row = rows.kv + i * s.kv_width(),
              *turning = rows.turning + i / s.heads * s.turning;
      T *k = heads.k + i * width, *v = heads.v + i * width;
      if (heads.q != nullptr) {
        const T* const q_row = rows.q + i * s.q_width();
        T* const q = heads.q + i * width;
        std::copy_n(q_row + s.fixed, s.turning, q);
        std::copy_n(q_row, s.fixed, q + s.turning);
        std::fill(q + s.q_width(), q + width, T(0));
      }
      std::copy_n(turning, s.turning, k);
      std::copy_n(kv_row, s.fixed, k + s.turning);
      std::copy_n(kv_row + s.fixed, s.values, v);
      std::fill(k + s.q_width(), k + width, T(0));
      std::fill(v + s.values, v + width, T(0));
    }
  });
}

template <class T>
void latent_heads_backward(const LatentRows<T>& rows, const LatentParts<const T>& heads,
                           const LatentHeads& s) {
  const std::int64_t width = s.width();
  for_blocks(s.tokens, rows_per_block(s.heads * width), [&](std::int64_t begin, std::int64_t end) {
    std::fill(rows.turning + begin * s.turning, rows.turning + end * s.turning, T(0));
    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {  // token and head
      T *q_row = rows.q + i * s.q_width(), *kv_row = rows.kv + i * s.kv_width(),
        *turning = rows.turning + i / s.heads * s.turning;
      const T *q = heads.q + i * width, *k = heads.k + i * width, *v = heads.v + i * width;
      std::copy_n(q, s.turning, q_row + s.fixed);
      std::copy_n(q + s.turning, s.fixed, q_row);
      std::copy_n(k + s.turning, s.fixed, kv_row);
      std::copy_n(v, s.values, kv_row + s.fixed);
      for (std::int64_t c = 0; c < s.turning; ++c) turning[c] += k[c];
    }
  });
}

template <class T>
void split_columns(T* a, T* b, const T* x, std::int64_t rows, std::int64_t first,
                   std::int64_t second) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const from = x + row * (first + second);
    std::copy_n(from, first, a + row * first);
    if (b != nullptr) std::copy_n(from + first, second, b + row * second);
  }
}

template <class T>
void merge_columns(T* x, const T* a, const T* b, std::int64_t rows, std::int64_t first,
                   std::int64_t second) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const to = x + row * (first + second);
    std::copy_n(a + row * first, first, to);
    if (b != nullptr)
      std::copy_n(b + row * second, second, to + first);
    else
      std::fill_n(to + first, second, T(0));
  }
}

#define INSTANTIATE(T)                                                                     \
  template void latent_heads_forward(const LatentParts<T>&, const LatentRows<const T>&,    \
                                     const LatentHeads&);                                  \
  template void latent_heads_backward(const LatentRows<T>&, const LatentParts<const T>&,   \
                                      const LatentHeads&);                                 \
  template void split_columns(T*, T*, const T*, std::int64_t, std::int64_t, std::int64_t); \
  template void merge_columns(T*, const T*, const T*, std::int64_t, std::int64_t, std::int64_t)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
