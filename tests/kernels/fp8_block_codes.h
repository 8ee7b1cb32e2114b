// What the tests of codes in blocks share (kernels/fp8_blocks.h).
#pragma once

#include "base/half.h"
#include "kernels/fp8_blocks.h"
#include "tests/kernels/check.h"

namespace mt::check {

// Codes of x, [rows, cols], and of its transpose.
struct BlockCodes {
  template <class T>
  BlockCodes(const std::vector<T>& x, std::int64_t height, std::int64_t width, bool of_squares)
      : rows(height),
        cols(width),
        codes(x.size()),
        transposed(x.size()),
        inverse(static_cast<std::size_t>(fp8_blocks(width) * height)),
        transposed_inverse(static_cast<std::size_t>(fp8_blocks(height) * width)) {
    cpu::fp8_block_cast(Fp8BlockCast<T>{.x = x.data(),
                                        .codes = codes.data(),
                                        .inverse = inverse.data(),
                                        .transposed = transposed.data(),
                                        .transposed_inverse = transposed_inverse.data(),
                                        .rows = rows,
                                        .cols = cols,
                                        .squares = of_squares});
  }
  std::int64_t rows, cols;
  std::vector<std::uint8_t> codes, transposed;
  std::vector<float> inverse, transposed_inverse;
};

// What a code stands for: of row r and column c of a matrix with so many columns.
inline float number_at(const std::vector<std::uint8_t>& codes, const std::vector<float>& inverse,
                       std::int64_t rows, std::int64_t cols, std::int64_t r, std::int64_t c) {
  Fp8 code;
  code.bits = codes[static_cast<std::size_t>(r * cols + c)];
  return static_cast<float>(code) * inverse[static_cast<std::size_t>(c / kFp8Block * rows + r)];
}

}  // namespace mt::check
