#include "kernels/dropout.h"

#include <algorithm>

#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// y[r,c] = (residual) + (kept ? (x + bias) / (1 - p) : 0), with `residual` and `bias` null for
// none.
template <class T>
void dropout_row(T* y, const T* residual, const T* x, const T* bias, std::int64_t r,
                 std::int64_t cols, const Dropout& dropout) {
  const T kept = static_cast<T>(1 / (1 - dropout.p));
  const auto sample =
      static_cast<std::uint32_t>(dropout.record->first_sample + r / dropout.seq_length);
  const auto position = static_cast<std::uint32_t>(r % dropout.seq_length);
  for (std::int64_t first = 0; first < cols; first += 4) {
    const Counter words =
        philox({static_cast<std::uint32_t>(first / 4), position, 0, sample}, dropout.key);
    for (std::int64_t c = first; c < std::min(cols, first + 4); ++c) {
      const T value = x[c] + (bias ? bias[c] : 0);
      y[c] = (residual ? residual[c] : 0) +
             (words[c - first] >= dropout.threshold() ? value * kept : 0);
    }
  }
}

template <class T>
void add_row(T* y, const T* residual, const T* x, const T* bias, std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; ++c)
    y[c] = (residual ? residual[c] : 0) + (x[c] + (bias ? bias[c] : 0));
}

}  // namespace

template <class T>
void bias_dropout_add(T* y, const T* residual, const T* x, const T* bias, std::int64_t rows,
                      std::int64_t cols, const Dropout& dropout) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const T* residual_row = residual ? residual + r * cols : nullptr;
      if (dropout.p > 0)
        dropout_row(y + r * cols, residual_row, x + r * cols, bias, r, cols, dropout);
      else
        add_row(y + r * cols, residual_row, x + r * cols, bias, cols);
    }
  });
}

template <class T>
void dropout_backward(T* dx, const T* dy, std::int64_t rows, std::int64_t cols,
                      const Dropout& dropout) {
  bias_dropout_add<T>(dx, nullptr, dy, nullptr, rows, cols, dropout);
}

template void bias_dropout_add(float*, const float*, const float*, const float*, std::int64_t,
                               std::int64_t, const Dropout&);
template void bias_dropout_add(double*, const double*, const double*, const double*, std::int64_t,
                               std::int64_t, const Dropout&);
template void dropout_backward(float*, const float*, std::int64_t, std::int64_t, const Dropout&);
template void dropout_backward(double*, const double*, std::int64_t, std::int64_t, const Dropout&);

}  // namespace mt::cpu
