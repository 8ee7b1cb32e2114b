// The floating-point types of 16 bits on the host, as their bits: bfloat16, which is the upper half
// of a float, and IEEE 754's binary16.  Rounding is to the nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace mt {

struct Bf16 {
  std::uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    bits = static_cast<std::uint16_t>(std::isnan(value) ? all >> 16 | 0x40
                                                        : (all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

struct Fp16 {
  std::uint16_t bits = 0;
  Fp16() = default;
  explicit Fp16(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 16 & 0x8000, magnitude = all & 0x7fffffff;
    std::uint32_t rest = 0;
    if (magnitude > 0x7f800000) {
      rest = 0x7e00;  // NaN
    } else if (magnitude >= 0x477ff000) {
      rest = 0x7c00;                       // infinity: 65520 and more
    } else if (magnitude >= 0x38800000) {  // 2^-14: normal
      rest = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    } else {  // a multiple of 2^-24, to which adding 1/2 rounds
      const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
      rest = std::bit_cast<std::uint32_t>(scaled) - std::bit_cast<std::uint32_t>(0.5f);
    }
    bits = static_cast<std::uint16_t>(sign | rest);
  }
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
    const float magnitude =
        std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction | 0x400),
                   static_cast<int>(exponent == 0 ? 1 : exponent) - 25);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
};

}  // namespace mt
