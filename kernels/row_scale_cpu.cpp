#include "kernels/row_scale.h"

#include <cmath>

#include "kernels/loops.h"

namespace mt::cpu {

template <class T>
void row_squares(T* squares, const T* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const row = x + r * cols;
      squares[r] = sum<T>(cols, [&](std::int64_t c) { return row[c] * row[c]; });
    }
  });
}

template <class T>
void row_factors(T* factor, const T* m, const T* squares, std::int64_t count,
                 const RowBlock& block) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = block.place(i, 1, 1);
    factor[row] = m[i] / std::sqrt(squares[row]);
  }
}

template <class T>
void scale_rows(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = factor[r] * x[r * cols + c];
  });
}

template <class T>
void scale_columns(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = factor[c] * x[r * cols + c];
  });
}

template <class T>
void multiply(T* y, const T* a, const T* b, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = a[i] * b[i];
  });
}

template <class T>
void add_over_norms(T* dm, const T* total, const T* squares, std::int64_t count,
                    const RowBlock& block) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = block.place(i, 1, 1);
    dm[i] += total[row] / std::sqrt(squares[row]);
  }
}

#define INSTANTIATE(T)                                                              \
  template void row_squares(T*, const T*, std::int64_t, std::int64_t);              \
  template void row_factors(T*, const T*, const T*, std::int64_t, const RowBlock&); \
  template void scale_rows(T*, const T*, const T*, std::int64_t, std::int64_t);     \
  template void scale_columns(T*, const T*, const T*, std::int64_t, std::int64_t);  \
  template void multiply(T*, const T*, const T*, std::int64_t);                     \
  template void add_over_norms(T*, const T*, const T*, std::int64_t, const RowBlock&)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
