// kernels/fp8_blocks.h: matrices of codes of E4M3 (kernels/fp8.h) of which each block of 128
// numbers has a scale of its own, and their products (DeepSeek-V3: arXiv:2412.19437, 3.3.2).
//   a = max |x| of a block      s = the largest power of two that is not above 448 / a, as fp8.h
//                                   says where that is none
//   q = the code nearest to x s      x ~ q / s
// A block is 128 numbers of a row, of a column, or a square of 128 x 128; the last may be smaller.
//
// Codes [rows, cols] come with the inverses 1 / s of each row's blocks, [ceil(cols / 128), rows];
// those of a square are written for each of its rows.  So a product sums over blocks l of k:
//   c[i, j] = sum over l of a_inverse[l, i] b_inverse[l, j] (sum over k in l of a[i, k] b[j, k])
//             + (accumulate ? c[i, j] : 0) + bias[j]
// On Hopper the inner sums have some 13 bits, as its tensor cores keep them: beside the sum of
// 128 products' absolute values one is off by at most 2^-12 of that.  The outer sum is f32, in the
// order of blocks.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/fp8.h"

namespace mt {

inline constexpr std::int64_t kFp8Block = 128;

constexpr float fp8_block_scale(float amax) {
  const auto bits = std::bit_cast<std::uint32_t>(fp8_scale_of(amax, Fp8Format::e4m3));
  return std::bit_cast<float>(bits & 0xff800000U);
}
constexpr std::int64_t fp8_blocks(std::int64_t numbers) {
  return (numbers + kFp8Block - 1) / kFp8Block;
}

// codes and inverse are of blocks of x's rows, transposed and its inverse of blocks of x's columns,
// which are its own rows; or both of squares.  Either pair may be null.
template <class T>
struct Fp8BlockCast {
  const T* x = nullptr;                 // [rows, cols]
  std::uint8_t* codes = nullptr;        // [rows, cols]
  float* inverse = nullptr;             // [fp8_blocks(cols), rows]
  std::uint8_t* transposed = nullptr;   // [cols, rows]
  float* transposed_inverse = nullptr;  // [fp8_blocks(rows), cols]
  std::int64_t rows = 0, cols = 0;
  bool squares = false;
};

template <class C>
struct Fp8BlockGemm {
  C* c = nullptr;                                 // [m, n]
  const std::uint8_t *a = nullptr, *b = nullptr;  // [m, k], [n, k]
  const float* a_inverse = nullptr;               // [fp8_blocks(k), a_rows], of its first m columns
  const float* b_inverse = nullptr;               // [fp8_blocks(k), n]
  std::int64_t m = 0, n = 0, k = 0, a_rows = 0;
  bool squares = false;  // b has blocks that are squares
  bool accumulate = false;
  const C* bias = nullptr;  // [n] or null
};

}  // namespace mt

// T: float or double.
namespace mt::cpu {
template <class T>
void fp8_block_cast(const Fp8BlockCast<T>& cast);
// Sums in T: of a block's products, and of those, in the order of blocks.
template <class T>
void fp8_block_gemm(const Fp8BlockGemm<T>& problem);
}  // namespace mt::cpu

namespace mt::cuda {
// T: float or bf16.  cols is a multiple of kFp8Multiple, and so are rows where there is a
// transpose; all addresses of 16.
template <class T>
void fp8_block_cast(const Fp8BlockCast<T>& cast, cudaStream_t stream);
// y: [rows, cols], what codes stand for, where the rows of `inverse` have `stride` numbers.
void fp8_block_numbers(__nv_bfloat16* y, const std::uint8_t* codes, const float* inverse,
                       std::int64_t rows, std::int64_t cols, std::int64_t stride,
                       cudaStream_t stream);
}  // namespace mt::cuda

// C: bf16 or float.  Where hopper_kernels(); m, n, k and a_rows are multiples of kFp8Multiple, all
// addresses of 16.  Same problem, same bits.
namespace mt::cuda::hopper {
template <class C>
void fp8_block_gemm(const Fp8BlockGemm<C>& problem, cudaStream_t stream);
// Columns of the tiles that take least time on so many multiprocessors.
int fp8_block_columns(std::int64_t m, std::int64_t n, bool squares, int multiprocessors);
}  // namespace mt::cuda::hopper
