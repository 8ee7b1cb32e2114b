#include "kernels/gated_norm.h"

#include <cmath>
#include <vector>

#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {
namespace {

// f(token, group, its first channel in the token's row)
template <class F>
void for_groups(std::int64_t begin, std::int64_t end, const MambaShape& s, const F& f) {
  const std::int64_t width = s.inner() / s.groups;
  for (std::int64_t token = begin; token < end; ++token)
    for (std::int64_t g = 0; g < s.groups; ++g) f(token, g, g * width);
}

}  // namespace

template <class T>
void gated_norm_forward(T* out, T* rstd, const T* y, const T* projected, const T* w, double eps,
                        const MambaShape& s) {
  const std::int64_t width = s.inner() / s.groups;
  const auto row = [&](std::int64_t token, std::int64_t g, std::int64_t first) {
    const T* const z = projected + token * s.projected() + first;
    const T* const x = y + token * s.inner() + first;
    T* const h = out + token * s.inner() + first;
    for (std::int64_t c = 0; c < width; ++c) h[c] = x[c] * z[c] * sigmoid(z[c]);
    const T squares = sum<T>(width, [&](std::int64_t c) { return h[c] * h[c]; });
    const T r = 1 / std::sqrt(squares / static_cast<T>(width) + static_cast<T>(eps));
    for (std::int64_t c = 0; c < width; ++c) h[c] *= r * w[first + c];
    rstd[token * s.groups + g] = r;
  };
  for_blocks(s.tokens(), rows_per_block(s.inner()),
             [&](std::int64_t begin, std::int64_t end) { for_groups(begin, end, s, row); });
}

template <class T>
void gated_norm_backward(T* dy, T* d_projected, T* dw, const T* d_out, const T* y,
                         const T* projected, const T* rstd, const T* w, const MambaShape& s) {
  const std::int64_t inner = s.inner(), width = inner / s.groups, block = rows_per_block(inner),
                     blocks = (s.tokens() + block - 1) / block;
  std::vector<T> partial(static_cast<std::size_t>(blocks * inner));  // dw of each block
  const auto row = [&](std::int64_t token, std::int64_t g, std::int64_t first) {
    const T* const z = projected + token * s.projected() + first;
    const T* const x = y + token * inner + first;
    const T* const d = d_out + token * inner + first;
    T* const dx = dy + token * inner + first;
    T* const dz = d_projected + token * s.projected() + first;
    T* const part = partial.data() + token / block * inner + first;
    const T r = rstd[token * s.groups + g];
    const auto n = [&](std::int64_t c) { return x[c] * z[c] * sigmoid(z[c]) * r; };
    const T mean_en = sum<T>(width, [&](std::int64_t c) { return d[c] * w[first + c] * n(c); }) /
                      static_cast<T>(width);
    for (std::int64_t c = 0; c < width; ++c) {
      const T open = sigmoid(z[c]), dh = r * (d[c] * w[first + c] - n(c) * mean_en);
      part[c] += d[c] * n(c);
      dz[c] = dh * x[c] * open * (1 + z[c] * (1 - open));
      dx[c] = dh * z[c] * open;
    }
  };
  for_blocks(s.tokens(), block,
             [&](std::int64_t begin, std::int64_t end) { for_groups(begin, end, s, row); });
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::int64_t c = 0; c < inner; ++c)
      dw[c] += partial[static_cast<std::size_t>(i * inner + c)];
}

#define INSTANTIATE(T)                                                                            \
  template void gated_norm_forward(T*, T*, const T*, const T*, const T*, double,                  \
                                   const MambaShape&);                                            \
  template void gated_norm_backward(T*, T*, T*, const T*, const T*, const T*, const T*, const T*, \
                                    const MambaShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
