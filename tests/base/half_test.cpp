#include "base/half.h"

#include <gtest/gtest.h>

#include <limits>

namespace mt {
namespace {

// The two neighbours of every value round as the nearest, ties to even, asks: the middle goes to
// the even one, anything beyond it to the other.
template <class Half>
void expect_nearest(std::uint32_t infinity) {
  using Bits = decltype(Half::bits);
  constexpr std::uint32_t kSign = 1U << (8 * sizeof(Half) - 1);
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    Half low, high;
    low.bits = static_cast<Bits>(bits);
    high.bits = static_cast<Bits>(bits + 1);
    const auto a = static_cast<float>(low);
    ASSERT_EQ(Half(a).bits, bits);
    ASSERT_EQ(Half(-a).bits, bits | kSign);
    if (bits + 1 == infinity) break;
    const auto b = static_cast<float>(high);
    ASSERT_LT(a, b);
    const float middle = a + (b - a) / 2;
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    if (middle == a || middle == b) continue;  // bfloat16's denormals
    ASSERT_EQ(Half(middle).bits, even) << bits;
    ASSERT_EQ(Half(std::nextafter(middle, a)).bits, bits) << bits;
    ASSERT_EQ(Half(std::nextafter(middle, b)).bits, bits + 1) << bits;
  }
}

TEST(Half, Bf16RoundsToTheNearest) { expect_nearest<Bf16>(0x7f80); }
TEST(Half, Fp16RoundsToTheNearest) { expect_nearest<Fp16>(0x7c00); }

TEST(Half, Fp8RoundsToTheNearest) { expect_nearest<Fp8>(0x7f); }  // NaN is where infinity would be
TEST(Half, Fp8E5m2RoundsToTheNearest) { expect_nearest<Fp8E5m2>(0x7c); }

TEST(Half, Values) {
  EXPECT_EQ(Bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(Fp16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Fp16(0x1p-24f).bits, 1);
  EXPECT_EQ(Fp16(0x1p-25f).bits, 0);
  EXPECT_EQ(Fp16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(Fp16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(static_cast<float>(Fp16(-0.0f)), 0.0f);
  EXPECT_TRUE(std::signbit(static_cast<float>(Fp16(-0.0f))));
  EXPECT_EQ(Fp8(1.0f).bits, 0x38);
  EXPECT_EQ(Fp8(0x1p-9f).bits, 1);
  EXPECT_EQ(Fp8(0x1p-10f).bits, 0);
  EXPECT_EQ(static_cast<float>(Fp8(449.0f)), 448.0f);
  EXPECT_EQ(Fp8E5m2(0.1f).bits, 0x2e);
  EXPECT_EQ(Fp8E5m2(1.3f).bits, 0x3d);
  EXPECT_EQ(static_cast<float>(Fp8E5m2(1e9f)), 57344.0f);
}

TEST(Half, InfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(Bf16(kInfinity)), kInfinity);
  EXPECT_EQ(static_cast<float>(Fp16(-kInfinity)), -kInfinity);
  EXPECT_EQ(static_cast<float>(Bf16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(static_cast<float>(Fp8(-kInfinity)), -448.0f);
  EXPECT_EQ(static_cast<float>(Fp8E5m2(-kInfinity)), -57344.0f);
  const float low_nan = std::bit_cast<float>(0x7f800001);  // whose upper half is infinity's
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(low_nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Fp16(low_nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Fp8(low_nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Fp8E5m2(low_nan))));
}

}  // namespace
}  // namespace mt
