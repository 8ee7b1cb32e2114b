#include "kernels/relative_bias.h"

#include "kernels/alibi.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

// transformers 4.45, T5Attention._relative_position_bucket, with 32 buckets up to 128.
TEST(RelativeBuckets, AreThoseOfOthers) {
  const RelativeBuckets both(32, 128, true), one(32, 128, false);
  const std::vector<std::int64_t> distances = {0,  1,  7,  8,  9,  11, 12, 15, 16,  22,  23,
                                               31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 5000};
  const std::vector<int> sides = {0,  1,  7,  8,  8,  8,  9,  9,  10, 10, 11,
                                  11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15};
  const std::vector<int> causal = {0,  1,  7,  8,  9,  11, 12, 15, 16, 18, 18,
                                   21, 21, 23, 24, 26, 26, 29, 29, 31, 31, 31};
  for (std::size_t i = 0; i < distances.size(); ++i) {
    EXPECT_EQ(both(-distances[i]), sides[i]) << distances[i];
    EXPECT_EQ(both(distances[i]), sides[i] + (distances[i] > 0 ? 16 : 0)) << distances[i];
    EXPECT_EQ(one(-distances[i]), causal[i]) << distances[i];
    EXPECT_EQ(one(distances[i]), 0) << distances[i];
  }
}

TEST(RelativeBuckets, HaveAnEnd) {
  const RelativeBuckets few(4, 3, true);
  EXPECT_EQ(few(-1), 1);
  EXPECT_EQ(few(1 << 30), 3);
}

// The slopes that the paper has for 8 heads, and what its authors take for 6, of whose heads 3 are
// of another rank.
TEST(Alibi, SlopesAreThePapers) {
  const auto slopes_of = [](std::int64_t all_heads, std::int64_t first_head) {
    const AlibiShape s{.length = 3,
                       .heads = all_heads - first_head,
                       .all_heads = all_heads,
                       .first_head = first_head};
    std::vector<double> bias(static_cast<std::size_t>(5 * s.heads)), slopes;
    cpu::alibi(bias.data(), s);
    for (std::size_t h = 0; h < bias.size(); h += 5) {
      slopes.push_back(bias[h + 3]);
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(bias[h + i], slopes.back() * (static_cast<double>(i) - 2));
    }
    return slopes;
  };
  std::vector<double> eight;
  for (int i = 1; i <= 8; ++i) eight.push_back(std::ldexp(1, -i));
  EXPECT_EQ(slopes_of(8, 0), eight);
  EXPECT_EQ(slopes_of(6, 3), (std::vector<double>{0x1p-8, 0x1p-1, 0x1p-3}));
}

// The backward is the forward's transpose, and adds.
TEST(RelativeBias, Gradient) {
  const RelativeShape s{.length = 40,
                        .heads = 2,
                        .all_heads = 6,
                        .first_head = 2,
                        .buckets = RelativeBuckets(8, 20, true)};
  const auto table = check::random<double>(8 * 6, 1), d_bias = check::random<double>(2 * 79, 2);
  std::vector<double> bias(2 * 79), d_table(table.size(), 0.5);
  cpu::relative_bias(bias.data(), table.data(), s);
  EXPECT_EQ(bias[79 + 39], table[3]);  // the second head, a key's own query
  cpu::relative_bias_backward(d_table.data(), d_bias.data(), s);
  for (double& sum : d_table) sum -= 0.5;
  EXPECT_NEAR(check::dot(bias, d_bias), check::dot(table, d_table), 1e-13);
}

}  // namespace
}  // namespace mt
