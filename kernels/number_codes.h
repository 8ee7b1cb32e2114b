// kernels/number_codes.h: the codes of faiss's scalar quantizers, some bits for each number of a
// vector, one behind the other from the lowest bit of the first byte on.  Of 8, 6 or 4 bits
//   x' = low + width (code + 1/2) / m         m = 2^bits - 1, low and width its column's
// or fp16 or bf16.
#pragma once

#include <bit>
#include <cstdint>

namespace mt {

struct NumberCodes {
  // As faiss's files number them.
  enum class Kind : std::int32_t { bits8 = 0, bits4 = 1, fp16 = 4, bits6 = 6, bf16 = 7 };
  Kind kind = Kind::bits8;
  std::int64_t columns = 0;
  const float* ranges = nullptr;  // low [columns], then width [columns]; of 16 bits none

  static constexpr std::int64_t bits_of(Kind kind) {
    return kind == Kind::bits8 ? 8 : kind == Kind::bits6 ? 6 : kind == Kind::bits4 ? 4 : 16;
  }

  static constexpr float half_value(std::uint32_t bits) {
    const std::uint32_t magnitude = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;
    const std::uint32_t value =
        magnitude >= 0x7c00U << 13
            ? magnitude | 0x7f800000
            : std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    return std::bit_cast<float>(value | sign);
  }

  // The number of a column that a vector's code stands for.
  constexpr float number(const std::uint8_t* code, std::int64_t column) const {
    const std::int64_t bits = bits_of(kind), first = column * bits;
    const std::uint8_t* const at = code + first / 8;
    std::uint32_t word = at[0];
    if (first % 8 + bits > 8) word |= static_cast<std::uint32_t>(at[1]) << 8;
    if (kind == Kind::bf16) return std::bit_cast<float>(word << 16);
    if (kind == Kind::fp16) return half_value(word);
    const std::uint32_t most = (1U << bits) - 1, value = word >> first % 8 & most;
    return ranges[column] + ranges[columns + column] *
                                ((static_cast<float>(value) + 0.5F) / static_cast<float>(most));
  }
};

}  // namespace mt
