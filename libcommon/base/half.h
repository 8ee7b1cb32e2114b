// The floating-point types of 16 and 8 bits on the host, as their bits: bfloat16, which is the
// upper half of a float, IEEE 754's binary16, and E4M3 and E5M2 (Micikevicius et al.:
// arXiv:2209.05433), whose largest numbers, 448 and 57344, stand for all above them.  Rounding is
// to the nearest, ties to even.
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

struct Fp8 {
  std::uint8_t bits = 0;
  Fp8() = default;
  explicit Fp8(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 24 & 0x80, magnitude = all & 0x7fffffff;
    std::uint32_t rest = 0;
    if (magnitude > 0x7f800000) {
      rest = 0x7f;  // NaN
    } else if (magnitude >= 0x43e00000) {
      rest = 0x7e;                         // 448
    } else if (magnitude >= 0x3c800000) {  // 2^-6: normal
      rest = (magnitude - 0x3c000000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    } else {  // a multiple of 2^-9, to which adding 2^14 rounds
      const float scaled = std::bit_cast<float>(magnitude) + 0x1p14f;
      rest = std::bit_cast<std::uint32_t>(scaled) - std::bit_cast<std::uint32_t>(0x1p14f);
    }
    bits = static_cast<std::uint8_t>(sign | rest);
  }
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24;
    const std::uint32_t exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 0x7f) == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
    const float magnitude = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction | 8),
                                       static_cast<int>(exponent == 0 ? 1 : exponent) - 10);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
};

struct Fp8E5m2 {
  std::uint8_t bits = 0;
  Fp8E5m2() = default;
  explicit Fp8E5m2(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 24 & 0x80, magnitude = all & 0x7fffffff;
    std::uint32_t rest = 0;
    if (magnitude > 0x7f800000) {
      rest = 0x7f;  // NaN
    } else if (magnitude >= 0x47600000) {
      rest = 0x7b;                         // 57344
    } else if (magnitude >= 0x38800000) {  // 2^-14: normal
      rest = (magnitude - 0x38000000 + 0xfffff + (magnitude >> 21 & 1)) >> 21;
    } else {  // a multiple of 2^-16, to which adding 2^7 rounds
      const float scaled = std::bit_cast<float>(magnitude) + 0x1p7f;
      rest = std::bit_cast<std::uint32_t>(scaled) - std::bit_cast<std::uint32_t>(0x1p7f);
    }
    bits = static_cast<std::uint8_t>(sign | rest);
  }
  // The upper half of an Fp16.
  explicit operator float() const {
    Fp16 wide;
    wide.bits = static_cast<std::uint16_t>(bits << 8);
    return static_cast<float>(wide);
  }
};

}  // namespace mt
