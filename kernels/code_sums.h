// kernels/code_sums.h: lower bounds of what tables add up to over the parts of codes, 64 codes at a
// time, on the CPU.
//   bytes[p, c] = floor((table[p, c] - low_p) / step),   low_p = min_c table[p, c]
//   sum_p table[p, code_p] >= sum_p low_p + step sum_p bytes[p, code_p]
// where step is the widest part's width by 255.  Sums of bytes are exact in 16 bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mt::cpu {

inline constexpr std::int64_t kCodesTogether = 64;
inline constexpr std::int64_t kMostCodeParts = 256;  // 255 of each make 16 bits

// Whether this processor looks bytes up in registers: others are as quick without bounds.
bool sums_bytes();

// Codes, [count, parts], part by part: [tiles, parts, kCodesTogether], zeros behind the last.
std::vector<std::uint8_t> by_parts(std::span<const std::uint8_t> codes, std::int64_t parts);

struct ByteTables {
  std::vector<std::uint8_t> bytes = {};  // [parts, 256]; empty where numbers are not finite
  float low = 0, step = 0, largest = 0;  // low: of all parts; largest: sum_p max_c |table[p, c]|

  void fill(std::span<const float> table);
};

// sums: [kCodesTogether], of a tile of by_parts().
void byte_sums(std::uint16_t* sums, const std::uint8_t* tile, const ByteTables& tables);

}  // namespace mt::cpu
