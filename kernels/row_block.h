// kernels/row_block.h: a block of a wide matrix, and the narrow matrix of its elements alone.  Of
// every `period` rows of the wide one the block has `count`, from `first` on, and of these rows the
// columns from `column` on.
//   spread    wide[g period + first + i, column + j] = factor narrow[g count + i, j]
//   collect   narrow[g count + i, j] += factor wide[g period + first + i, column + j]
// narrow: [rows, cols];  wide: [rows / count period, wide_cols].  T: float or double; on the GPU
// float, bf16 or fp16; what is collected is float there, and is added to float or bf16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {
struct RowBlock {
  std::int64_t period = 1, first = 0, count = 1, column = 0;

  // Element i of the narrow matrix, of `cols` columns, in the wide one, of `wide_cols`.
  constexpr std::int64_t place(std::int64_t i, std::int64_t cols, std::int64_t wide_cols) const {
    const std::int64_t row = i / cols;
    return (row / count * period + first + row % count) * wide_cols + column + i % cols;
  }
};
}  // namespace mt

namespace mt::cpu {
template <class T>
void spread(T* wide, std::int64_t wide_cols, const T* narrow, std::int64_t rows, std::int64_t cols,
            const RowBlock& block, T factor);
template <class T>
void collect(T* narrow, std::int64_t rows, std::int64_t cols, const T* wide, std::int64_t wide_cols,
             const RowBlock& block, T factor);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void spread(T* wide, std::int64_t wide_cols, const T* narrow, std::int64_t rows, std::int64_t cols,
            const RowBlock& block, float factor, cudaStream_t stream);
template <class G>
void collect(G* narrow, std::int64_t rows, std::int64_t cols, const float* wide,
             std::int64_t wide_cols, const RowBlock& block, float factor, cudaStream_t stream);
}  // namespace mt::cuda
