#include "kernels/gemm.h"

#include <algorithm>

#include "kernels/block_product.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

constexpr std::int64_t kTile = 128;  // rows and columns of c per task; k is never cut

// Row-major [rows, cols], or its transpose where that is what is stored; the block at (r, c) of it.
template <class T>
Block<const T> block_at(const T* x, bool transpose, std::int64_t rows, std::int64_t cols,
                        std::int64_t r, std::int64_t c) {
  if (transpose) return {x + c * rows + r, rows, true};
  return {x + r * cols + c, cols, false};
}

template <class T>
void product_tile(const Gemm<T>& p, std::int64_t row, std::int64_t col) {
  const std::int64_t m = std::min(kTile, p.m - row), n = std::min(kTile, p.n - col);
  T* c = p.c + row * p.n + col;
  if (p.bias)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        c[i * p.n + j] = (p.accumulate ? c[i * p.n + j] : 0) + p.bias[col + j];
  block_product<T>({c, p.n}, block_at(p.a, p.transpose_a, p.m, p.k, row, 0),
                   block_at(p.b, p.transpose_b, p.k, p.n, 0, col), m, n, p.k, 1,
                   p.accumulate || p.bias ? 1 : 0);
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& problem) {
  const std::int64_t down = (problem.m + kTile - 1) / kTile,
                     across = (problem.n + kTile - 1) / kTile;
  parallel_for(down * across, [&](std::int64_t tile) {
    product_tile(problem, tile / across * kTile, tile % across * kTile);
  });
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);

}  // namespace mt::cpu
