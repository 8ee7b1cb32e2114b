#include "kernels/text_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mt {
namespace {

// Two rows of six tokens, each of three texts, of which one may have no token.
const std::vector<std::int32_t> kLengths = {2, 0, 3, 1, 4, 1};
const std::vector<double> kMask = {0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1};
constexpr std::int64_t kRows = 2, kTokens = 6, kTexts = 3;

TEST(TextSums, AreOfEachTextsTokensThatCount) {
  std::vector<double> x = {9, 1, 2, 9, 4, 9, 8, 16, NAN, 32, 64, 128}, sums(12);
  cpu::text_sums(sums.data(), x.data(), kMask.data(), {kLengths.data(), kRows, kTokens, kTexts});
  EXPECT_EQ(sums, (std::vector<double>{-1, 0, -6, -8, -112, -128, 1, 0, 2, 1, 3, 1}));
}

TEST(TextSums, SlopesGoBackToTheTokensThatCount) {
  std::vector<double> x(12, NAN);
  const std::vector<double> slope = {1, 2, 3, 4, 5, 6};
  cpu::spread_over_texts(x.data(), slope.data(), kMask.data(),
                         {kLengths.data(), kRows, kTokens, kTexts});
  EXPECT_EQ(x, (std::vector<double>{0, -1, -3, 0, -3, 0, -4, -5, 0, -5, -5, -6}));
}

}  // namespace
}  // namespace mt
