// kernels/vector_math.h: sixteen floats at a time, for the *_simd.cpp files alone.  GCC's vector
// types become one AVX-512, two AVX2 or four SSE registers; every operation rounds as IEEE 754
// says, so the three give the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/loops.h"

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
  float lane[kLanes];
  store(lane, v);
  return sum<float>(kLanes, [&](std::int64_t l) { return lane[l]; });
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
  const Ints exponent = std::bit_cast<Ints>(shifted) - std::bit_cast<std::int32_t>(kToInteger);
  const Ints half = exponent >> 1;
  return e * std::bit_cast<Floats>((half + 127) << 23) *
         std::bit_cast<Floats>((exponent - half + 127) << 23);
}

// erf to 1.5 ulp: x + x q(x^2) for |x| < 1, else 1 - e^-s(|x|), both from minimax fits (1e-9); 1
// beyond 4.
[[gnu::always_inline]] inline Floats erf(Floats x) {
  const Floats t = x * x;
  Floats q = 7.85385770e-5f + Floats{};
  q = q * t - 8.01019252e-4f;
  q = q * t + 5.18832756e-3f;
  q = q * t - 2.68538119e-2f;
  q = q * t + 1.12835851e-1f;
  q = q * t - 3.76126258e-1f;
  q = q * t + 1.28379166e-1f;
  Floats a = x < 0.0f ? -x : x;
  a = a > 4.0f ? Floats{} + 4.0f : a;
  Floats s = -1.86380084e-4f + Floats{};
  s = s * a + 2.94766680e-3f;
  s = s * a - 2.18380970e-2f;
  s = s * a + 1.03106821e-1f;
  s = s * a + 6.38144758e-1f;
  s = s * a + 1.12708923e+0f;
  s = s * a + 3.41512593e-4f;
  const Floats large = 1.0f - exp(-s);
  return a < 1.0f ? x + x * q : (x < 0.0f ? -large : large);
}

}  // namespace mt::cpu::simd
