#include "kernels/rms_norm.h"

#include <cmath>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class T>
void forward_row(T* __restrict__ y, T& rstd, const T* __restrict__ x, const T* __restrict__ w,
                 std::int64_t cols, T eps) {
  const T squares = sum<T>(cols, [&](std::int64_t c) { return x[c] * x[c]; });
  const T s = 1 / std::sqrt(squares / static_cast<T>(cols) + eps);
  for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * s * w[c];
  rstd = s;
}

template <class T>
void backward_row(T* __restrict__ dx, T* __restrict__ dw, const T* __restrict__ dy,
                  const T* __restrict__ x, T rstd, const T* __restrict__ w, std::int64_t cols) {
  const T mean_gh = sum<T>(cols, [&](std::int64_t c) { return dy[c] * w[c] * (x[c] * rstd); }) /
                    static_cast<T>(cols);
  for (std::int64_t c = 0; c < cols; ++c) {
    const T h = x[c] * rstd;
    dw[c] += dy[c] * h;
    dx[c] = rstd * (dy[c] * w[c] - h * mean_gh);
  }
}

}  // namespace

template <class T>
void rms_norm_forward(T* y, T* rstd, const T* x, const T* w, std::int64_t rows, std::int64_t cols,
                      double eps) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      forward_row(y + r * cols, rstd[r], x + r * cols, w, cols, static_cast<T>(eps));
  });
}

template <class T>
void rms_norm_backward(T* dx, T* dw, const T* dy, const T* x, const T* rstd, const T* w,
                       std::int64_t rows, std::int64_t cols) {
  const std::int64_t block = rows_per_block(cols), blocks = (rows + block - 1) / block;
  std::vector<T> partial(static_cast<std::size_t>(blocks * cols));  // dw of each block
  for_blocks(rows, block, [&](std::int64_t first, std::int64_t last) {
    T* part = partial.data() + first / block * cols;
    for (std::int64_t r = first; r < last; ++r)
      backward_row(dx + r * cols, part, dy + r * cols, x + r * cols, rstd[r], w, cols);
  });
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::int64_t c = 0; c < cols; ++c) dw[c] += partial[i * cols + c];
}

template void rms_norm_forward(float*, float*, const float*, const float*, std::int64_t,
                               std::int64_t, double);
template void rms_norm_forward(double*, double*, const double*, const double*, std::int64_t,
                               std::int64_t, double);
template void rms_norm_backward(float*, float*, const float*, const float*, const float*,
                                const float*, std::int64_t, std::int64_t);
template void rms_norm_backward(double*, double*, const double*, const double*, const double*,
                                const double*, std::int64_t, std::int64_t);

}  // namespace mt::cpu
