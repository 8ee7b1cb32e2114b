#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/threads.h"
#include "kernels/block_product.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// c is cut into tiles of [rows, cols]; k is never cut, so that an element is one sum in one order.
struct Tiles {
  std::int64_t rows, cols, down, across;
};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Tiles of kRowTile rows below one another that are one product, so that b is packed once for them,
// of which a sixth of the time would go into it for each: as many as leave each core eight, and
// none where a tile is so small that a BLAS might take other loops for what is small.  They change
// no bit (gemm.h).
template <class T>
std::int64_t row_tiles_together(const Gemm<T>& p, std::int64_t cols) {
  constexpr std::int64_t kSmall = 1 << 22, kMost = 8;
  if (kRowTile * cols * p.k < kSmall) return 1;
  const std::int64_t down = p.m / kRowTile, tiles = down * divide_up(p.n, cols);
  const auto most = std::clamp<std::int64_t>(tiles / (8 * available_cores()), 1, kMost);
  return divide_up(down, divide_up(down, most));
}

// Tiles of at most 256 x 256, and smaller, down to about 64 x 64, until there are four of them, or
// sixteen of a large product.  Smaller ones pack more: for k = 128, tiles of 128 x 128 run at 0.95
// and of 64 x 64 at 0.88 of the speed of one whole product; for k = 3072, 128 x 128 at 0.8.
template <class T>
Tiles choose_tiles(const Gemm<T>& p) {
  constexpr std::int64_t kLargest = 256, kSmallest = 64;
  const double work = 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k);
  const auto enough = static_cast<std::int64_t>(std::clamp(work / 64e6, 4.0, 16.0));
  std::int64_t down = divide_up(p.m, kLargest), across = divide_up(p.n, kLargest);
  while (down * across < enough) {
    const bool cut_rows = p.m * across >= p.n * down;  // the longer side
    if ((cut_rows ? p.m / down : p.n / across) < 2 * kSmallest) break;
    ++(cut_rows ? down : across);
  }
  const auto side = [](std::int64_t length, std::int64_t parts) {
    return divide_up(divide_up(length, parts), 16) * 16;
  };
  std::int64_t rows = side(p.m, down), cols = side(p.n, across);
  if (p.m % kRowTile == 0 && p.transpose_b && !p.transpose_a) {
    cols = side(p.n, divide_up(p.n, kLargest));  // by n alone
    rows = kRowTile * row_tiles_together(p, cols);
  }
  return {rows, cols, divide_up(p.m, rows), divide_up(p.n, cols)};
}

// Row-major [rows, cols], or its transpose where that is what is stored; the block at (r, c) of it.
template <class T>
Block<const T> block_at(const T* x, bool transpose, std::int64_t rows, std::int64_t cols,
                        std::int64_t r, std::int64_t c) {
  if (transpose) return {x + c * rows + r, rows, true};
  return {x + r * cols + c, cols, false};
}

template <class T>
void start_row(T* c, const T* bias, std::int64_t count, bool accumulate) {
  for (std::int64_t j = 0; j < count; ++j) c[j] = (accumulate ? c[j] : 0) + bias[j];
}

template <class T>
void product_tile(const Gemm<T>& p, const Tiles& tiles, std::int64_t row, std::int64_t col) {
  const std::int64_t m = std::min(tiles.rows, p.m - row), n = std::min(tiles.cols, p.n - col);
  T* c = p.c + row * p.n + col;
  if (p.bias)
    for (std::int64_t i = 0; i < m; ++i) start_row(c + i * p.n, p.bias + col, n, p.accumulate);
  block_product<T>({c, p.n}, block_at(p.a, p.transpose_a, p.m, p.k, row, 0),
                   block_at(p.b, p.transpose_b, p.k, p.n, 0, col), m, n, p.k, 1,
                   p.accumulate || p.bias ? 1 : 0);
}

// c[i, j] for kRows rows from `row` and kCols columns from `col`: dot products in 16 partial sums,
// as sum() in loops.h adds.
template <int kRows, int kCols, class T>
[[gnu::always_inline]] inline void few_dots(const Gemm<T>& p, std::int64_t row, std::int64_t col) {
  using Lanes [[gnu::vector_size(kLanes * sizeof(T))]] = T;
  const auto load = [&](const T* x, std::int64_t count) __attribute__((always_inline)) {
    Lanes v = {};
    std::memcpy(&v, x, static_cast<std::size_t>(count) * sizeof(T));
    return v;
  };
  Lanes lanes[kRows][kCols] = {};
  const auto add = [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
    Lanes b[kCols];
    for (int c = 0; c < kCols; ++c) b[c] = load(p.b + (col + c) * p.k + i, count);
    for (int r = 0; r < kRows; ++r) {
      const Lanes a = load(p.a + (row + r) * p.k + i, count);
      for (int c = 0; c < kCols; ++c) lanes[r][c] += a * b[c];
    }
  };
  std::int64_t i = 0;
  for (; i + kLanes <= p.k; i += kLanes) add(i, kLanes);
  if (i < p.k) add(i, p.k - i);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      T& out = p.c[(row + r) * p.n + col + c];
      const T start = (p.accumulate ? out : 0) + (p.bias ? p.bias[col + c] : 0);
      out = start + sum<T>(kLanes, [&](std::int64_t l) { return lanes[r][c][l]; });
    }
}

template <int kRows, class T>
[[gnu::always_inline]] inline void few_columns(const Gemm<T>& p, std::int64_t row,
                                               std::int64_t first, std::int64_t last) {
  constexpr int kCols = 4;
  std::int64_t col = first;
  for (; col + kCols <= last; col += kCols) few_dots<kRows, kCols>(p, row, col);
  for (; col < last; ++col) few_dots<kRows, 1>(p, row, col);
}

// b is read once for all rows of a, without packing: what bounds a step of generation.
template <class T>
void few_rows(const Gemm<T>& p) {
  for_blocks(p.n, rows_per_block(p.k), [&](std::int64_t first, std::int64_t last) {
    std::int64_t row = 0;
    for (; row + 4 <= p.m; row += 4) few_columns<4>(p, row, first, last);
    for (; row + 2 <= p.m; row += 2) few_columns<2>(p, row, first, last);
    if (row < p.m) few_columns<1>(p, row, first, last);
  });
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& problem) {
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.m <= kFewRows && problem.transpose_b && !problem.transpose_a)
    return few_rows(problem);
  const Tiles tiles = choose_tiles(problem);
  for_blocks(tiles.down * tiles.across, 1, [&](std::int64_t tile, std::int64_t) {
    product_tile(problem, tiles, tile / tiles.across * tiles.rows,
                 tile % tiles.across * tiles.cols);
  });
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);

}  // namespace mt::cpu
