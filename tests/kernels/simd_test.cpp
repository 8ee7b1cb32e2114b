#include "kernels/simd.h"

#include <bit>
#include <string>

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

// Distance in units of the last place of the float nearest to `expected`.
double ulps(float got, double expected) {
  const float nearest = static_cast<float>(expected);
  if (std::isinf(nearest) || std::isnan(nearest)) return got == nearest ? 0 : 1e9;
  const double ulp = std::max(std::ldexp(1.0, -149),
                              std::ldexp(1.0, std::ilogb(nearest == 0 ? 1e-45f : nearest) - 23));
  return std::abs(got - expected) / ulp;
}

// Every 4099th float, both signs, all exponents.
std::vector<float> floats_of_all_sizes() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4099) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(value)) x.push_back(value);
  }
  return x;
}

TEST(Simd, ExpIsExactToOneUlp) {
  std::vector<float> x = floats_of_all_sizes();
  const auto near_zero = random<float>(100000, 1, -110, 95);
  x.insert(x.end(), near_zero.begin(), near_zero.end());
  std::vector<float> y(x.size());
  cpu::simd::exp(y.data(), x.data(), std::ssize(x));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::exp(double(x[i]))));
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Simd, ExpOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> y = {0, -0.0f, inf, -inf, std::nanf(""), -1e30f, 1e30f};
  cpu::simd::exp(y.data(), y.data(), std::ssize(y));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], inf);
  EXPECT_EQ(y[3], 0);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 0);
  EXPECT_EQ(y[6], inf);
}

TEST(Simd, NormalCdfIsCloseEverywhere) {
  std::vector<float> x = floats_of_all_sizes();
  const auto near_zero = random<float>(100000, 1, -9, 9);
  x.insert(x.end(), near_zero.begin(), near_zero.end());
  std::vector<float> y(x.size());
  cpu::simd::normal_cdf(y.data(), x.data(), std::ssize(x));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(y[i] - std::erfc(-double(x[i]) / std::sqrt(2.0)) / 2));
  EXPECT_LE(worst, 3e-7);
}

TEST(Simd, NormalCdfOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> y = {0, 6, -6, inf, -inf, std::nanf("")};
  cpu::simd::normal_cdf(y.data(), y.data(), std::ssize(y));
  EXPECT_EQ(y[0], 0.5f);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], 0);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST(Simd, TailsAreAsWholeVectors) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 31, 33}) {
    const auto x = random<float>(count, 3, -20, 5);
    std::vector<float> y(x.size()), padded = x, expected(count + 16);
    padded.resize(count + 16);
    cpu::simd::exp(y.data(), x.data(), count);
    cpu::simd::exp(expected.data(), padded.data(), count + 16);
    expected.resize(count);
    EXPECT_EQ(y, expected) << count;
  }
}

}  // namespace
}  // namespace mt
