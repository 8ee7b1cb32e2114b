// kernels/fp8_parts.h: codes of eight bits (kernels/fp8.h) of a part of a matrix, of which other
// ranks have the other parts, and what is made of all parts' codes.
//
// A part is consecutive elements of a matrix [rows, cols], from `begin` on.  What it is scaled by
// comes from the largest number of the whole matrix, or of each square of 128 x 128 of it
// (kernels/fp8_blocks.h), [fp8_blocks(rows), fp8_blocks(cols)]: which ranks find together.
#pragma once

#include "kernels/fp8_blocks.h"

namespace mt {

template <class T>
struct Fp8Part {
  const T* x = nullptr;  // [count], the part
  std::int64_t begin = 0, count = 0, rows = 0, cols = 0;
};

}  // namespace mt

// T: float or double; on a GPU float, bf16 or fp16.
namespace mt::cpu {
// amax becomes that of the part and what is there, for each square.
template <class T>
void fp8_part_squares(float* amax, const Fp8Part<T>& part);
template <class T>
void fp8_part_cast_squares(std::uint8_t* codes, const Fp8Part<T>& part, const float* amax);
// y: [cols, rows], of x: [rows, cols].
void fp8_transpose(std::uint8_t* y, const std::uint8_t* x, std::int64_t rows, std::int64_t cols);
// As Fp8BlockCast's: inverse, [fp8_blocks(cols), rows], and transposed, [fp8_blocks(rows), cols].
void fp8_square_inverses(float* inverse, float* transposed, const float* amax, std::int64_t rows,
                         std::int64_t cols);
}  // namespace mt::cpu
namespace mt::cuda {
template <class T>
void fp8_part_squares(float* amax, const Fp8Part<T>& part, cudaStream_t stream);
template <class T>
void fp8_part_cast_squares(std::uint8_t* codes, const Fp8Part<T>& part, const float* amax,
                           cudaStream_t stream);
// codes: [count], of x times the scale, [1]; amax, [1] or null, becomes that of x and what is
// there.
template <class T>
void fp8_part_cast(std::uint8_t* codes, float* amax, const T* x, const float* scale,
                   std::int64_t count, Fp8Format format, cudaStream_t stream);
void fp8_transpose(std::uint8_t* y, const std::uint8_t* x, std::int64_t rows, std::int64_t cols,
                   cudaStream_t stream);
void fp8_square_inverses(float* inverse, float* transposed, const float* amax, std::int64_t rows,
                         std::int64_t cols, cudaStream_t stream);
}  // namespace mt::cuda
