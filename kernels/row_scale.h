// kernels/row_scale.h: rows of a matrix of their own lengths (Liu et al., DoRA: arXiv:2402.09353).
//   row_squares    squares[r] = sum_c x[r,c]^2
//   row_factors    factor[row of i] = m[i] / sqrt(squares[row of i])
//   scale_rows     y[r,c] = factor[r] x[r,c]                            y may be x
//   scale_columns  y[r,c] = factor[c] x[r,c], factor of T              y may be x
//   multiply       y[i] = a[i] b[i]                                     y may be a or b
//   add_over_norms dm[i] += total[row of i] / sqrt(squares[row of i])
// Number i of m, of so many, is of a row of a block (kernels/row_block.h).  x, y: [rows, cols] of
// T, as m;  squares, factor, total: f32, or T where that is double.  T: float or double; on the GPU
// float, bf16 or fp16, and dm float or bf16.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/row_block.h"

namespace mt::cpu {
template <class T>
void row_squares(T* squares, const T* x, std::int64_t rows, std::int64_t cols);
template <class T>
void row_factors(T* factor, const T* m, const T* squares, std::int64_t count,
                 const RowBlock& block);
template <class T>
void scale_rows(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols);
template <class T>
void scale_columns(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols);
template <class T>
void multiply(T* y, const T* a, const T* b, std::int64_t count);
template <class T>
void add_over_norms(T* dm, const T* total, const T* squares, std::int64_t count,
                    const RowBlock& block);
}  // namespace mt::cpu

namespace mt::cuda {
template <class T>
void row_squares(float* squares, const T* x, std::int64_t rows, std::int64_t cols,
                 cudaStream_t stream);
template <class T>
void row_factors(float* factor, const T* m, const float* squares, std::int64_t count,
                 const RowBlock& block, cudaStream_t stream);
template <class T>
void scale_rows(T* y, const T* x, const float* factor, std::int64_t rows, std::int64_t cols,
                cudaStream_t stream);
template <class T>
void scale_columns(T* y, const T* x, const T* factor, std::int64_t rows, std::int64_t cols,
                   cudaStream_t stream);
template <class T>
void multiply(T* y, const T* a, const T* b, std::int64_t count, cudaStream_t stream);
template <class G>
void add_over_norms(G* dm, const float* total, const float* squares, std::int64_t count,
                    const RowBlock& block, cudaStream_t stream);
}  // namespace mt::cuda
