// kernels/fill_random.h: random numbers that are a function of their place, in f64, rounded to
// float and then to T where T is narrower.
//   fill_normal  y[i] ~ N(mean, std): Box and Muller (1958).  Pair n = (first + i) / 2 has words 0
//                and 1 of philox({n as 64 bits, 0, 0}, key) as uniform u and v: an even first + i
//                gets sqrt(-2 log u) cos(2 pi v), an odd one the same with sin.
//   fill_uniform y[i] ~ U(-bound, bound): with n = first + i, word n % 4 of
//                philox({n / 4 as 64 bits, 0, 0}, key)
// The bits are the same on the CPU and on a GPU, and on every machine: only operations that
// IEEE 754 rounds in one way, and none of them contracted.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/random.h"
#include "kernels/cuda_types.h"

namespace mt {

// log u for 0 < u < 1: with u = m 2^e and m in [sqrt(1/2), sqrt(2)), log m = 2 artanh s, where
// s = (m - 1) / (m + 1); what the series lacks behind s^21 is below a rounding.
constexpr double log_of_unit(double u) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1,
                          kOne = std::uint64_t{1023} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(u);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | kOne);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), t = s * s;
  double sum = 1.0 / 21;
  sum = sum * t + 1.0 / 19;
  sum = sum * t + 1.0 / 17;
  sum = sum * t + 1.0 / 15;
  sum = sum * t + 1.0 / 13;
  sum = sum * t + 1.0 / 11;
  sum = sum * t + 1.0 / 9;
  sum = sum * t + 1.0 / 7;
  sum = sum * t + 1.0 / 5;
  sum = sum * t + 1.0 / 3;
  sum = sum * t + 1.0;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// cos(2 pi v) and sin(2 pi v) for 0 <= v < 1: the nearest quarter turn, which is exact, and
// Taylor's series of the rest, at most pi / 4.
constexpr std::array<double, 2> cos_and_sin(double v) {
  const auto quarter = static_cast<int>(4 * v + 0.5);
  const double x = (4 * v - quarter) * 1.5707963267948966, t = x * x;
  double cosine = 1.0 / 20922789888000;  // 1 / 16!
  cosine = cosine * t - 1.0 / 87178291200;
  cosine = cosine * t + 1.0 / 479001600;
  cosine = cosine * t - 1.0 / 3628800;
  cosine = cosine * t + 1.0 / 40320;
  cosine = cosine * t - 1.0 / 720;
  cosine = cosine * t + 1.0 / 24;
  cosine = cosine * t - 1.0 / 2;
  cosine = cosine * t + 1.0;
  double sine = -1.0 / 1307674368000;  // 1 / 15!
  sine = sine * t + 1.0 / 6227020800;
  sine = sine * t - 1.0 / 39916800;
  sine = sine * t + 1.0 / 362880;
  sine = sine * t - 1.0 / 5040;
  sine = sine * t + 1.0 / 120;
  sine = sine * t - 1.0 / 6;
  sine = (sine * t + 1.0) * x;
  if (quarter % 2 == 1) return {quarter == 1 ? -sine : sine, quarter == 1 ? cosine : -cosine};
  return {quarter == 2 ? -cosine : cosine, quarter == 2 ? -sine : sine};
}

// Words of the n-th pair, or of the n-th four.
constexpr Counter words_of(std::uint64_t n, RandomKey key) {
  return philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 0}, key);
}

}  // namespace mt

// T: float or double.
namespace mt::cpu {
template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key);
template <class T>
void fill_uniform(T* y, std::int64_t first, std::int64_t count, double bound, RandomKey key);
}  // namespace mt::cpu

// T: float, bf16 or fp16.
namespace mt::cuda {
template <class T>
void fill_normal(T* y, std::int64_t first, std::int64_t count, double mean, double std,
                 RandomKey key, cudaStream_t stream);
template <class T>
void fill_uniform(T* y, std::int64_t first, std::int64_t count, double bound, RandomKey key,
                  cudaStream_t stream);
}  // namespace mt::cuda
