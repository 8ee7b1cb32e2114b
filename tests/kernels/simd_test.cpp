#include "kernels/simd.h"

#include <bit>
#include <cstdlib>

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;
using cpu::simd::Isa;

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
  cpu::simd::exp(cpu::simd::best_isa(), y.data(), x.data(), std::ssize(x));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::exp(double(x[i]))));
  EXPECT_LE(worst, 1.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Simd, ExpOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> y = {0, -0.0f, inf, -inf, std::nanf(""), -1e30f, 1e30f};
  cpu::simd::exp(cpu::simd::best_isa(), y.data(), y.data(), std::ssize(y));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], inf);
  EXPECT_EQ(y[3], 0);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 0);
  EXPECT_EQ(y[6], inf);
}

TEST(Simd, ErfIsExactToOneAndAHalfUlps) {
  std::vector<float> x = floats_of_all_sizes();
  const auto near_zero = random<float>(100000, 1, -5, 5);
  x.insert(x.end(), near_zero.begin(), near_zero.end());
  std::vector<float> y(x.size());
  cpu::simd::erf(cpu::simd::best_isa(), y.data(), x.data(), std::ssize(x));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::erf(double(x[i]))));
  EXPECT_LE(worst, 1.5);
  RecordProperty("worst_ulp", std::to_string(worst));
}

// One float kernel as a function of the instruction set; all results one after another.
std::vector<float> everything(Isa isa, std::int64_t count) {
  const auto x = random<float>(2 * count, 1, -8, 8), dy = random<float>(count, 2);
  std::vector<float> out(9 * count + 2);
  float* y = out.data();
  cpu::simd::exp(isa, y, x.data(), count);
  cpu::simd::erf(isa, y + count, x.data(), count);
  cpu::simd::gelu_forward(isa, y + 2 * count, x.data(), count, GeluForm::tanh);
  cpu::simd::gelu_backward(isa, y + 3 * count, dy.data(), x.data(), count, GeluForm::tanh);
  cpu::simd::gelu_backward(isa, y + 4 * count, dy.data(), x.data(), count, GeluForm::erf);
  cpu::simd::swiglu_forward(isa, y + 5 * count, x.data(), 1, count);
  cpu::simd::swiglu_backward(isa, y + 6 * count, dy.data(), x.data(), 1, count);
  y[9 * count] = cpu::simd::max(isa, x.data(), count);
  y[9 * count + 1] = cpu::simd::exp_sum(isa, y + 8 * count, x.data(), 1.5f, count);
  return out;
}

TEST(Simd, SameBitsOnEveryInstructionSet) {
  if (!cpu::simd::runs_here(Isa::avx2)) GTEST_SKIP() << "this machine has the base set alone";
  for (const std::int64_t count : {0, 1, 15, 16, 31, 33, 1000}) {
    const auto base = everything(Isa::base, count);
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!cpu::simd::runs_here(isa)) continue;
      EXPECT_TRUE(check::same_bits(base, everything(isa, count)))
          << count << " elements, instruction set " << int(isa);
    }
  }
}

TEST(Simd, RowsOfSoftmax) {
  const Isa isa = cpu::simd::best_isa();
  EXPECT_EQ(cpu::simd::max(isa, nullptr, 0), -std::numeric_limits<float>::infinity());
  for (const std::int64_t count : {1, 15, 16, 31, 33, 1000}) {
    const auto x = random<float>(count, 3, -20, -1);
    std::vector<float> y(x.size());
    const float top = cpu::simd::max(isa, x.data(), count);
    EXPECT_EQ(top, *std::max_element(x.begin(), x.end()));
    const float total = cpu::simd::exp_sum(isa, y.data(), x.data(), top, count);
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected += std::exp(double(x[i]) - top);
      EXPECT_NEAR(y[i], std::exp(double(x[i]) - top), 1e-6);
    }
    EXPECT_NEAR(total, expected, 1e-6 * expected);
  }
}

}  // namespace
}  // namespace mt
