#include <algorithm>

#include "kernels/block_product.h"
#include "kernels/cached_latents.h"
#include "kernels/gemm.h"
#include "kernels/loops.h"
#include "kernels/turn.h"

namespace mt::cpu {
namespace {

// A token of a head.
template <class T>
void multiply_row(T* out, const T* x, const T* w, const HeadProductShape& s) {
  if (s.transposed) {
    for (std::int64_t i = 0; i < s.rows; ++i)
      out[i] = sum<T>(s.cols, [&](std::int64_t c) { return w[i * s.cols + c] * x[c]; });
    return;
  }
  std::fill_n(out, s.cols, T(0));
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t c = 0; c < s.cols; ++c) out[c] += x[i] * w[i * s.cols + c];
}

}  // namespace

template <class T>
void cached_latents(const CachedLatents<T>& t, const T* angles, const CachedLatentsShape& s) {
  const std::int64_t length = s.tokens / std::max<std::int64_t>(1, s.sequences),
                     q_width = s.fixed + s.turning;
  for_blocks(s.tokens, rows_per_block(s.heads * s.turning + s.width()),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t token = first; token < last; ++token) {
                 const T* const angle = angles + token * s.turning;
                 const auto turn = [&](T* to, const T* from) {
                   turn_pairs(to, from, angle, angle + s.turning / 2, s.turning / 2, true);
                 };
                 for (std::int64_t i = token * s.heads; i < (token + 1) * s.heads; ++i)
                   turn(t.q + i * s.width(), t.q_rows + i * q_width + s.fixed);
                 const std::int64_t row =
                     row_in_cache(t.slots, s.runs, s.capacity, token / length, t.positions[token]);
                 T* const to = t.cache + row * s.width();
                 turn(to, t.turning + token * s.turning);
                 std::copy_n(t.latents + token * s.rank, s.rank, to + s.turning);
               }
             });
}

template <class T>
void head_product(T* out, const T* x, const T* w, const HeadProductShape& s) {
  if (s.tokens == 0) return;  // of which there is no memory
  const std::int64_t x_row = s.heads * s.x_width, out_row = s.heads * s.out_width;
  const bool alone = s.rows_alone || s.tokens <= kFewRows;
  for_blocks(s.heads, 1, [&](std::int64_t head, std::int64_t) {
    const T* const own = w + (head * s.rows_of_head + s.first_row) * s.cols;
    T* const to = out + head * s.out_width + s.first_out;
    const T* const from = x + head * s.x_width + s.first_x;
    if (!alone)
      return block_product<T>({to, out_row}, {from, x_row}, {own, s.cols, s.transposed}, s.tokens,
                              s.made(), s.read(), 1, 0);
    for (std::int64_t t = 0; t < s.tokens; ++t)
      multiply_row(to + t * out_row, from + t * x_row, own, s);
  });
}

#define INSTANTIATE(T)                                                                        \
  template void cached_latents(const CachedLatents<T>&, const T*, const CachedLatentsShape&); \
  template void head_product(T*, const T*, const T*, const HeadProductShape&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
