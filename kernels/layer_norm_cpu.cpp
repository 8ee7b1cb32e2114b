#include "kernels/layer_norm.h"

#include <cmath>
#include <vector>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class T>
void forward_row(T* __restrict__ y, T& mean, T& rstd, const T* __restrict__ x,
                 const T* __restrict__ w, const T* __restrict__ b, std::int64_t cols, T eps) {
  const T n = static_cast<T>(cols);
  const T m = sum<T>(cols, [&](std::int64_t c) { return x[c]; }) / n;
  const T variance = sum<T>(cols, [&](std::int64_t c) { return (x[c] - m) * (x[c] - m); }) / n;
  const T s = 1 / std::sqrt(variance + eps);
  for (std::int64_t c = 0; c < cols; ++c) y[c] = (x[c] - m) * s * w[c] + b[c];
  mean = m;
  rstd = s;
}

template <class T>
void backward_row(T* __restrict__ dx, T* __restrict__ dw, T* __restrict__ db,
                  const T* __restrict__ dy, const T* __restrict__ x, T mean, T rstd,
                  const T* __restrict__ w, std::int64_t cols) {
  const T n = static_cast<T>(cols);
  const T mean_g = sum<T>(cols, [&](std::int64_t c) { return dy[c] * w[c]; }) / n;
  const T mean_gh =
      sum<T>(cols, [&](std::int64_t c) { return dy[c] * w[c] * ((x[c] - mean) * rstd); }) / n;
  for (std::int64_t c = 0; c < cols; ++c) {
    const T h = (x[c] - mean) * rstd;
    dw[c] += dy[c] * h;
    db[c] += dy[c];
    dx[c] = rstd * (dy[c] * w[c] - mean_g - h * mean_gh);
  }
}

}  // namespace

template <class T>
void layer_norm_forward(T* y, T* mean, T* rstd, const T* x, const T* w, const T* b,
                        std::int64_t rows, std::int64_t cols, double eps) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r)
      forward_row(y + r * cols, mean[r], rstd[r], x + r * cols, w, b, cols, static_cast<T>(eps));
  });
}

template <class T>
void layer_norm_backward(T* dx, T* dw, T* db, const T* dy, const T* x, const T* mean, const T* rstd,
                         const T* w, std::int64_t rows, std::int64_t cols) {
  const std::int64_t block = rows_per_block(cols), blocks = (rows + block - 1) / block;
  std::vector<T> partial(static_cast<std::size_t>(blocks * 2 * cols));  // dw and db of each block
  for_blocks(rows, block, [&](std::int64_t first, std::int64_t last) {
    T* part = partial.data() + first / block * 2 * cols;
    for (std::int64_t r = first; r < last; ++r)
      backward_row(dx + r * cols, part, part + cols, dy + r * cols, x + r * cols, mean[r], rstd[r],
                   w, cols);
  });
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::int64_t c = 0; c < cols; ++c) {
      dw[c] += partial[i * 2 * cols + c];
      db[c] += partial[(i * 2 + 1) * cols + c];
    }
}

template void layer_norm_forward(float*, float*, float*, const float*, const float*, const float*,
                                 std::int64_t, std::int64_t, double);
template void layer_norm_forward(double*, double*, double*, const double*, const double*,
                                 const double*, std::int64_t, std::int64_t, double);
template void layer_norm_backward(float*, float*, float*, const float*, const float*, const float*,
                                  const float*, const float*, std::int64_t, std::int64_t);
template void layer_norm_backward(double*, double*, double*, const double*, const double*,
                                  const double*, const double*, const double*, std::int64_t,
                                  std::int64_t);

}  // namespace mt::cpu
