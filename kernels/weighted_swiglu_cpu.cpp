#include <numeric>
#include <vector>

#include "kernels/activation.h"
#include "kernels/loops.h"
#include "kernels/row_scale.h"
#include "kernels/weighted_swiglu.h"

namespace mt::cpu {

template <class T>
void weighted_swiglu_forward(T* y, const T* x, const T* w, std::int64_t rows, std::int64_t cols) {
  swiglu_forward(y, x, rows, cols);
  scale_rows(y, y, w, rows, cols);
}

template <class T>
void weighted_swiglu_backward(T* dx, T* dw, const T* dy, const T* x, const T* w, std::int64_t rows,
                              std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> row(static_cast<std::size_t>(cols));
    for (std::int64_t r = begin; r < end; ++r) {
      const T *const d = dy + r * cols, *const of = x + 2 * r * cols;
      swiglu_forward(row.data(), of, 1, cols);
      dw[r] = std::inner_product(d, d + cols, row.data(), T(0));
      scale_rows(row.data(), d, w + r, 1, cols);
      swiglu_backward(dx + 2 * r * cols, row.data(), of, 1, cols);
    }
  });
}

#define INSTANTIATE(T)                                                                       \
  template void weighted_swiglu_forward(T*, const T*, const T*, std::int64_t, std::int64_t); \
  template void weighted_swiglu_backward(T*, T*, const T*, const T*, const T*, std::int64_t, \
                                         std::int64_t)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
