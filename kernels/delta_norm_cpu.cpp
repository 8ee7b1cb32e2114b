#include "kernels/delta_norm.h"

#include <cmath>
#include <vector>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {
namespace {

// f(token, value head) for all of some tokens
template <class F>
void for_heads(std::int64_t begin, std::int64_t end, const DeltaShape& s, const F& f) {
  for (std::int64_t token = begin; token < end; ++token)
    for (std::int64_t h = 0; h < s.value_heads; ++h) f(token, h);
}

template <class T>
const T* z_of(const T* projected, std::int64_t token, std::int64_t h, const DeltaShape& s) {
  return projected + token * s.projected() + s.z_of_projected() + h * s.value_dim;
}

}  // namespace

template <class T>
void delta_norm_forward(T* out, T* rstd, const T* y, const T* projected, const T* w,
                        const DeltaNorm& norm, const DeltaShape& s) {
  const T one = norm.zero_centered ? 1 : 0;
  const std::int64_t width = s.value_dim;
  const auto head = [&](std::int64_t token, std::int64_t h) {
    const std::int64_t first = token * s.values() + h * width;
    const T *const z = z_of(projected, token, h, s), *const x = y + first;
    const T squares = sum<T>(width, [&](std::int64_t c) { return x[c] * x[c]; });
    const T r = 1 / std::sqrt(squares / static_cast<T>(width) + static_cast<T>(norm.eps));
    for (std::int64_t c = 0; c < width; ++c)
      out[first + c] = x[c] * r * (one + w[c]) * (z[c] * sigmoid(z[c]));
    rstd[token * s.value_heads + h] = r;
  };
  for_blocks(s.tokens(), rows_per_block(s.values()),
             [&](std::int64_t begin, std::int64_t end) { for_heads(begin, end, s, head); });
}

template <class T>
void delta_norm_backward(T* dy, T* d_projected, T* dw, const T* d_out, const T* y,
                         const T* projected, const T* rstd, const T* w, const DeltaNorm& norm,
                         const DeltaShape& s) {
  const T one = norm.zero_centered ? 1 : 0;
  const std::int64_t width = s.value_dim, block = rows_per_block(s.values()),
                     blocks = (s.tokens() + block - 1) / block;
  std::vector<T> partial(static_cast<std::size_t>(blocks * width));  // dw of each block
  const auto head = [&](std::int64_t token, std::int64_t h) {
    const std::int64_t first = token * s.values() + h * width;
    const T *const z = z_of(projected, token, h, s), *const x = y + first, *const d = d_out + first;
    T* const dz = d_projected + (z - projected);
    T* const part = partial.data() + token / block * width;
    const T r = rstd[token * s.value_heads + h];
    const auto e = [&](std::int64_t c) { return d[c] * (one + w[c]) * (z[c] * sigmoid(z[c])); };
    const T mean_en =
        sum<T>(width, [&](std::int64_t c) { return e(c) * x[c] * r; }) / static_cast<T>(width);
    for (std::int64_t c = 0; c < width; ++c) {
      const T open = sigmoid(z[c]), n = x[c] * r;
      part[c] += d[c] * n * (z[c] * open);
      dz[c] = d[c] * n * (one + w[c]) * open * (1 + z[c] * (1 - open));
      dy[first + c] = r * (e(c) - n * mean_en);
    }
  };
  for_blocks(s.tokens(), block,
             [&](std::int64_t begin, std::int64_t end) { for_heads(begin, end, s, head); });
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::int64_t c = 0; c < width; ++c)
      dw[c] += partial[static_cast<std::size_t>(i * width + c)];
}

#define INSTANTIATE(T)                                                                            \
  template void delta_norm_forward(T*, T*, const T*, const T*, const T*, const DeltaNorm&,        \
                                   const DeltaShape&);                                            \
  template void delta_norm_backward(T*, T*, T*, const T*, const T*, const T*, const T*, const T*, \
                                    const DeltaNorm&, const DeltaShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
