// kernels/small_product.h: products of blocks that lie in the first-level cache, without packing,
// inlined into bodies that isa.h's run() compiles.
#pragma once

#include "kernels/vector_math.h"

namespace mt::cpu::simd {

struct SmallProduct {
  float* c;  // [rows, cols], c_stride between rows; cols is a multiple of 16
  std::int64_t c_stride;
  const float* a;  // [rows, k]: element (r, i) is a[r a_row + i a_column]
  std::int64_t a_row, a_column;
  const float* b;  // [k, cols], b_stride between rows
  std::int64_t b_stride;
  std::int64_t rows, cols, k;
  bool accumulate;
};

// kRows x 16 elements of c, in registers while k passes.
template <int kRows>
[[gnu::always_inline]] inline void product_tile(const SmallProduct& p, std::int64_t row,
                                                std::int64_t col) {
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + col;
  float* c = p.c + row * p.c_stride + col;
  Floats total[kRows] = {};
  if (p.accumulate)
    for (int r = 0; r < kRows; ++r) total[r] = load(c + r * p.c_stride);
  for (std::int64_t i = 0; i < p.k; ++i) {
    const Floats row_of_b = load(b + i * p.b_stride);
    for (int r = 0; r < kRows; ++r) total[r] += a[r * p.a_row + i * p.a_column] * row_of_b;
  }
  for (int r = 0; r < kRows; ++r) store(c + r * p.c_stride, total[r]);
}

// c = a b + (accumulate ? c : 0): sums in the order of k.
[[gnu::always_inline]] inline void multiply(const SmallProduct& p) {
  constexpr int kRows = 8;
  for (std::int64_t col = 0; col < p.cols; col += kLanes) {
    std::int64_t row = 0;
    for (; row + kRows <= p.rows; row += kRows) product_tile<kRows>(p, row, col);
    for (; row < p.rows; ++row) product_tile<1>(p, row, col);
  }
}

}  // namespace mt::cpu::simd
