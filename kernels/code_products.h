// kernels/code_products.h: products of codes of eight bits with those of a tile of vectors, exact
// in 32 bits, on the CPU.
//   out[i, j] = sum_d,b x[i, 4 d + b] (tile[d, j, b] - 128)
#pragma once

#include <cstdint>

namespace mt::cpu {

inline constexpr std::int64_t kCodeRows = 6;   // of x, whose number is a multiple of this
inline constexpr std::int64_t kCodeTile = 64;  // vectors of a tile

struct CodeProducts {
  std::int32_t* out = nullptr;  // [rows, kCodeTile], `stride` numbers from a row to the next
  std::int64_t stride = 0;
  const std::int8_t* x = nullptr;        // [rows, 4 depth], -127 to 127
  const std::int32_t* starts = nullptr;  // [rows]: -128 times the sum of a row of x
  std::int64_t rows = 0, depth = 0;
  const std::uint8_t* tile = nullptr;  // [depth, kCodeTile, 4]
};
void code_products(const CodeProducts& problem);

}  // namespace mt::cpu
