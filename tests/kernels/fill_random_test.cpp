#include "kernels/fill_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

TEST(FillRandom, LogarithmsAndAnglesAreThoseOfTheLibrary) {
  constexpr double kRounding = 0x1p-52;
  for (const std::uint32_t word : {0u, 1u, 2u, 0x3fffffffu, 0x40000000u, 0x5a827999u, 0x7fffffffu,
                                   0x80000000u, 0xbfffffffu, 0xb504f333u, 0xfffffffeu, 0xffffffffu})
    for (std::uint32_t n = 0; n < 1000; ++n) {
      const double u = to_unit(word ^ n * 0x01000193u);
      EXPECT_NEAR(log_of_unit(u), std::log(u), 3 * kRounding * -std::log(u)) << u;
      const auto [cosine, sine] = cos_and_sin(u);
      EXPECT_NEAR(cosine, std::cos(2 * M_PI * u), 8 * kRounding) << u;
      EXPECT_NEAR(sine, std::sin(2 * M_PI * u), 8 * kRounding) << u;
    }
}

TEST(FillRandom, NormalNumbersFollowTheFormula) {
  const RandomKey key = RandomKey::make(99, 3);
  const std::int64_t first = (3ll << 33) + 1;  // beyond 32 bits, and odd
  std::vector<double> got(33), expected(33);
  cpu::fill_normal(got.data(), first, 33, 0.5, 2.0, key);
  for (std::int64_t i = 0; i < 33; ++i) {
    const auto pair = static_cast<std::uint64_t>(first + i) / 2;
    const Counter words = philox(
        {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), 0, 0}, key);
    const double radius = std::sqrt(-2 * std::log(to_unit(words[0])));
    const double angle = 2 * M_PI * to_unit(words[1]);
    expected[i] = 0.5 + 2 * radius * ((first + i) % 2 ? std::sin(angle) : std::cos(angle));
  }
  EXPECT_TRUE(check::near(got, expected));
}

TEST(FillRandom, NormalNumbersHaveTheirMoments) {
  constexpr std::int64_t kCount = 1000000;
  std::vector<double> x(kCount);
  cpu::fill_normal(x.data(), 0, kCount, 0.0, 1.0, RandomKey::make(1, 1));
  double power[5] = {};
  for (const double value : x)
    for (int k = 1; k <= 4; ++k) power[k] += std::pow(value, k) / kCount;
  EXPECT_NEAR(power[1], 0, 5e-3);
  EXPECT_NEAR(power[2], 1, 1e-2);
  EXPECT_NEAR(power[3], 0, 2e-2);
  EXPECT_NEAR(power[4], 3, 6e-2);
}

// A slice made by itself equals the slice of the whole: what a shard of a weight needs.
TEST(FillRandom, NormalNumbersAreAFunctionOfPlace) {
  const RandomKey key = RandomKey::make(5, 6);
  std::vector<float> whole(50000), part(777);
  cpu::fill_normal(whole.data(), 0, 50000, 0.0, 0.02, key);
  cpu::fill_normal(part.data(), 20001, 777, 0.0, 0.02, key);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 20001));
}

}  // namespace
}  // namespace mt
