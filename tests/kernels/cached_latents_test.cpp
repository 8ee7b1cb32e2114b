#include "kernels/cached_latents.h"

#include <algorithm>

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Two sequences of a token each, of two heads: what turns comes first in queries and in the cache,
// at the token's place in its own page, and no other place is written.
TEST(CachedLatents, PlacesOfTokens) {
  const CachedLatentsShape s{.tokens = 2,
                             .sequences = 2,
                             .heads = 2,
                             .fixed = 1,
                             .turning = 2,
                             .rank = 3,
                             .capacity = 2,
                             .runs = 2};
  const std::vector<float> q_rows{9, 1, 2, 9, 3, 4, 9, 5, 6, 9, 7, 8}, turning{10, 20, 30, 40},
      latents{1, 2, 3, 4, 5, 6}, angles{1, 0, 0, 1};  // the second token's by a right angle
  const std::vector<std::int32_t> positions{3, 0}, slots{2, 0, 1, 2};
  std::vector<float> q(20, -1), cache(30, -1);
  cpu::cached_latents<float>({q.data(), cache.data(), q_rows.data(), turning.data(), latents.data(),
                              positions.data(), slots.data()},
                             angles.data(), s);
  EXPECT_EQ(q, (std::vector<float>{1,  2, -1, -1, -1, 3,  4, -1, -1, -1,
                                   -6, 5, -1, -1, -1, -8, 7, -1, -1, -1}));
  std::vector<float> expected(30, -1);
  std::ranges::copy(std::vector<float>{10, 20, 1, 2, 3}, expected.begin() + 5);
  std::ranges::copy(std::vector<float>{-40, 30, 4, 5, 6}, expected.begin() + 10);
  EXPECT_EQ(cache, expected);
}

// Against the formula; channels that are not made stay; tokens get the bits that they get alone,
// but many of them only where that is asked for.
TEST(CachedLatents, HeadProducts) {
  for (const std::int64_t tokens : {0, 1, 3, 16, 17, 40})
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens" << (transposed ? ", transposed" : ""));
      HeadProductShape s{.tokens = tokens,
                         .heads = 3,
                         .rows_of_head = 7,
                         .first_row = 2,
                         .rows = 5,
                         .cols = 19,
                         .x_width = 22,
                         .first_x = 3,
                         .out_width = 23,
                         .first_out = 4,
                         .transposed = transposed};
      const auto x = check::random<double>(tokens * s.heads * s.x_width, 1),
                 w = check::random<double>(s.heads * s.rows_of_head * s.cols, 2);
      std::vector<double> expected(static_cast<std::size_t>(tokens * s.heads * s.out_width), 5);
      for (std::int64_t i = 0; i < tokens * s.heads; ++i)
        for (std::int64_t m = 0; m < s.made(); ++m) {
          double& out = expected[static_cast<std::size_t>(i * s.out_width + 4 + m)];
          out = 0;
          for (std::int64_t r = 0; r < s.read(); ++r) {
            const std::int64_t row = i % s.heads * 7 + 2 + (transposed ? m : r);
            out += x[static_cast<std::size_t>(i * s.x_width + 3 + r)] *
                   w[static_cast<std::size_t>(row * s.cols + (transposed ? r : m))];
          }
        }
      const auto narrow_x = check::convert<float>(x), narrow_w = check::convert<float>(w);
      const auto product = [&](const HeadProductShape& of, std::int64_t first) {
        std::vector<float> out(static_cast<std::size_t>(of.tokens * s.heads * s.out_width), 5);
        cpu::head_product(out.data(), narrow_x.data() + first * s.heads * s.x_width,
                          narrow_w.data(), of);
        return out;
      };
      EXPECT_TRUE(check::near(product(s, 0), expected));
      std::vector<float> alone;
      HeadProductShape one = s;
      one.tokens = 1;
      for (std::int64_t t = 0; t < tokens; ++t)
        for (const float value : product(one, t)) alone.push_back(value);
      s.rows_alone = tokens > 16;
      EXPECT_EQ(product(s, 0), alone);
    }
}

}  // namespace
}  // namespace mt
