#include "kernels/fp8_parts.h"

#include <algorithm>
#include <bit>

#include "base/half.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

// Calls body(element of the part, square) for each.
template <class T, class Body>
void for_squares(const Fp8Part<T>& part, const Body& body) {
  const std::int64_t across = fp8_blocks(part.cols);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const std::int64_t row = (part.begin + i) / part.cols, col = (part.begin + i) % part.cols;
    body(i, row / kFp8Block * across + col / kFp8Block);
  }
}

}  // namespace

template <class T>
void fp8_part_squares(float* amax, const Fp8Part<T>& part) {
  // The bits of |x| as f32 are in the numbers' order, and NaN's beyond them.
  for_squares(part, [&](std::int64_t i, std::int64_t square) {
    const auto size = std::bit_cast<std::uint32_t>(static_cast<float>(part.x[i])) & 0x7fffffffU;
    amax[square] = std::bit_cast<float>(std::max(size, std::bit_cast<std::uint32_t>(amax[square])));
  });
}

template <class T>
void fp8_part_cast_squares(std::uint8_t* codes, const Fp8Part<T>& part, const float* amax) {
  for_squares(part, [&](std::int64_t i, std::int64_t square) {
    codes[i] = Fp8(static_cast<float>(part.x[i]) * fp8_block_scale(amax[square])).bits;
  });
}

void fp8_transpose(std::uint8_t* y, const std::uint8_t* x, std::int64_t rows, std::int64_t cols) {
  for_blocks(rows, rows_per_block(cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  });
}

void fp8_square_inverses(float* inverse, float* transposed, const float* amax, std::int64_t rows,
                         std::int64_t cols) {
  const std::int64_t across = fp8_blocks(cols);
  for (std::int64_t block = 0; block < across; ++block)
    for (std::int64_t r = 0; r < rows; ++r)
      inverse[block * rows + r] = 1 / fp8_block_scale(amax[r / kFp8Block * across + block]);
  for (std::int64_t block = 0; block < fp8_blocks(rows); ++block)
    for (std::int64_t c = 0; c < cols; ++c)
      transposed[block * cols + c] = 1 / fp8_block_scale(amax[block * across + c / kFp8Block]);
}

#define INSTANTIATE(T)                                       \
  template void fp8_part_squares(float*, const Fp8Part<T>&); \
  template void fp8_part_cast_squares(std::uint8_t*, const Fp8Part<T>&, const float*)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace mt::cpu
