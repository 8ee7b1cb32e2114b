// Keys and values of a cache in eight bits a number: what goes there and what comes back.
#include "kernels/cached_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/half.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

constexpr std::int64_t kWidth = 24, kCapacity = 4, kRuns = 2;

std::uint8_t code(double x) { return Fp8(static_cast<float>(x)).bits; }

// Two sequences of two tokens each, whose pages lie elsewhere.
TEST(CachedCodes, AreTheNearestOfQuotients) {
  const std::vector<std::int32_t> slots = {3, 1, 0, 2}, positions = {3, 4, 0, 1};
  const auto keys = check::random<double>(4 * kWidth, 1, -900, 900),
             values = check::random<double>(4 * kWidth, 2);
  std::vector<std::uint8_t> key_codes(4 * kCapacity * kWidth, 1), value_codes = key_codes;
  CachedCodes<std::uint8_t> cache{.keys = key_codes.data(),
                                  .values = value_codes.data(),
                                  .slots = slots.data(),
                                  .capacity = kCapacity,
                                  .runs = kRuns,
                                  .width = kWidth,
                                  .scales = {1.5F, 0.003F}};
  cpu::put_codes<double>(cache, {.keys = keys.data(),
                                 .values = values.data(),
                                 .positions = positions.data(),
                                 .tokens = 4,
                                 .of_sequence = 2});
  const std::array<std::int64_t, 4> rows = {3 * kCapacity + 3, kCapacity, 0, 1};
  std::size_t others = 0;
  for (std::int64_t row = 0; row < 4 * kCapacity; ++row) {
    const auto* const found = std::ranges::find(rows, row);
    if (found == rows.end()) {
      others += static_cast<std::size_t>(
          std::count(&key_codes[row * kWidth], &key_codes[row * kWidth] + kWidth, 1));
      continue;
    }
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const std::int64_t from = (found - rows.begin()) * kWidth + i;
      EXPECT_EQ(key_codes[row * kWidth + i], code(static_cast<float>(keys[from]) / 1.5F));
      EXPECT_EQ(value_codes[row * kWidth + i], code(static_cast<float>(values[from]) / 0.003F));
    }
  }
  EXPECT_EQ(others, 12 * kWidth);

  // The first sequence's five tokens, of which the last three are asked for by no length of two.
  std::vector<double> got(2 * 5 * kWidth, 7);
  const std::int32_t length = 2;
  const CachedCodes<const std::uint8_t> of{
      key_codes.data(), value_codes.data(), slots.data(), kCapacity, kRuns, kWidth, cache.scales};
  GetCodes<double> to{got.data(), got.data() + 5 * kWidth, 0, 5, nullptr};
  cpu::get_codes<double>(to, of);
  Fp8 number;
  number.bits = key_codes[(3 * kCapacity + 3) * kWidth + 2];
  EXPECT_EQ(got[3 * kWidth + 2], static_cast<double>(static_cast<float>(number) * 1.5F));
  number.bits = value_codes[kCapacity * kWidth + 5];
  EXPECT_EQ(got[9 * kWidth + 5], static_cast<double>(static_cast<float>(number) * 0.003F));
  std::fill(got.begin(), got.end(), 7);
  to.length = &length;
  cpu::get_codes<double>(to, of);
  EXPECT_NE(got[kWidth], 7);
  EXPECT_EQ(std::count(got.begin() + 2 * kWidth, got.begin() + 5 * kWidth, 7), 3 * kWidth);
}

}  // namespace
}  // namespace mt
