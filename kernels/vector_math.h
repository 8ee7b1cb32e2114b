// kernels/vector_math.h: sixteen floats at a time, with exp and the normal distribution, for bodies
// that isa.h's run() compiles.  GCC's vector types become one AVX-512, two AVX2 or four SSE
// registers; every operation rounds as IEEE 754 says, so the three give the same bits.  All is
// inlined: a Floats must not be passed between functions compiled for different sets.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/loops.h"
#include "kernels/normal_cdf.h"

namespace mt::cpu::simd {

using Floats [[gnu::vector_size(4 * kLanes)]] = float;
using Ints [[gnu::vector_size(4 * kLanes)]] = std::int32_t;

[[gnu::always_inline]] inline Floats load(const float* x) {
  Floats v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(float* y, Floats v) { std::memcpy(y, &v, sizeof v); }

// The first `count` <= 16 lanes; the others are `fill`, and are not stored.
[[gnu::always_inline]] inline Floats load(const float* x, std::int64_t count, float fill) {
  if (count == kLanes) return load(x);
  Floats v = Floats{} + fill;
  std::memcpy(&v, x, static_cast<std::size_t>(count) * sizeof(float));
  return v;
}
[[gnu::always_inline]] inline void store(float* y, Floats v, std::int64_t count) {
  if (count == kLanes) return store(y, v);
  std::memcpy(y, &v, static_cast<std::size_t>(count) * sizeof(float));
}

// By halves, as sum() in loops.h.
[[gnu::always_inline]] inline float sum_of_lanes(Floats v) {
  const auto eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
                    __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// y[i] = f(x[i]...)
template <class F, class... In>
[[gnu::always_inline]] inline void map(float* y, std::int64_t count, const F& f, const In*... x) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const std::int64_t lanes = std::min<std::int64_t>(kLanes, count - i);
    store(y + i, f(load(x + i, lanes, 0.0f)...), lanes);
  }
}

// e^x to 1 ulp: x = n ln 2 + r, |r| <= ln 2 / 2, and e^r = 1 + r + r^2 p(r) with p from a minimax
// fit (6e-11).  2^n is applied in two factors, so that results below 2^-126 are denormal and beyond
// the largest float inf, as std::exp's.  Passes NaN on.
[[gnu::always_inline]] inline Floats exp(Floats x) {
  constexpr float kLog2e = 0x1.715476p+0f, kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kToInteger = 0x1.8p23f;  // adding it rounds to an integer in the low bits
  x = x < -104.0f ? Floats{} - 104.0f : x;
  x = x > 89.0f ? Floats{} + 89.0f : x;
  const Floats shifted = x * kLog2e + kToInteger;
  const Floats n = shifted - kToInteger;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = 1.97892667e-4f + Floats{};
  p = p * r + 1.39457527e-3f;
  p = p * r + 8.33350375e-3f;
  p = p * r + 4.16662803e-2f;
  p = p * r + 1.66666658e-1f;
  p = p * r + 5.00000007e-1f;
  const Floats e = 1.0f + (r + r * r * p);
  // Not std::bit_cast, which would be a function that a Floats is passed to.
  const Ints exponent = __builtin_bit_cast(Ints, shifted) - std::bit_cast<std::int32_t>(kToInteger);
  const Ints half = exponent >> 1;
  return e * __builtin_bit_cast(Floats, (half + 127) << 23) *
         __builtin_bit_cast(Floats, (exponent - half + 127) << 23);
}

// The normal distribution function by normal_cdf.h.  Passes NaN on.
[[gnu::always_inline]] inline Floats normal_cdf(Floats x) {
  constexpr NormalCdf kFit;
  x = x < -kFit.bound ? Floats{} - kFit.bound : x;
  x = x > kFit.bound ? Floats{} + kFit.bound : x;
  const Floats t = x * x;
  Floats p = kFit.p[0] + Floats{}, q = kFit.q[0] + Floats{};
  for (int i = 1; i < 6; ++i) p = p * t + kFit.p[i];
  for (int i = 1; i < 6; ++i) q = q * t + kFit.q[i];
  return 0.5f + x * p / q;
}

}  // namespace mt::cpu::simd
