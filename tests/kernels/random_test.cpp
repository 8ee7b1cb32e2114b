#include "base/random.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

// The known answers published with Random123 (kat_vectors, philox4x32 10 and 7).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(philox<7>({0, 0, 0, 0}, {0, 0}),
            (Counter{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox<7>({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
}

TEST(Philox, SeedsAndPurposesGiveDifferentKeys) {
  const auto first = [](RandomKey key) { return philox({0, 0, 0, 0}, key)[0]; };
  EXPECT_NE(first(RandomKey::make(1, 2)), first(RandomKey::make(2, 1)));
  EXPECT_NE(first(RandomKey::make(1, 2)), first(RandomKey::make(1 + (1ull << 32), 2)));
}

TEST(Philox, UnitIntervalIsOpen) {
  EXPECT_GT(to_unit(0), 0.0);
  EXPECT_LT(to_unit(0xffffffff), 1.0);
}

}  // namespace
}  // namespace mt
