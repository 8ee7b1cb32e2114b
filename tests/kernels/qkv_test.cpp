#include "kernels/qkv.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

struct Parts {
  std::vector<float> q, k, v;
};

Parts split(const std::vector<float>& qkv, const QkvShape& s) {
  Parts out{std::vector<float>(s.tokens * s.heads * s.head_dim),
            std::vector<float>(s.tokens * s.groups * s.head_dim),
            std::vector<float>(s.tokens * s.groups * s.head_dim)};
  cpu::qkv_split(out.q.data(), out.k.data(), out.v.data(), qkv.data(), s);
  return out;
}

// Two heads of one channel per group: a row is q0 q1 k v of group 0, then of group 1.
TEST(Qkv, OrderOfARow) {
  const auto parts = split({0, 1, 2, 3, 4, 5, 6, 7}, {1, 4, 2, 1});
  EXPECT_EQ(parts.q, (std::vector<float>{0, 1, 4, 5}));
  EXPECT_EQ(parts.k, (std::vector<float>{2, 6}));
  EXPECT_EQ(parts.v, (std::vector<float>{3, 7}));
}

TEST(Qkv, MergeUndoesSplit) {
  for (const std::int64_t tokens : {0, 1, 31, 33, 600})
    for (const std::int64_t groups : {1, 2, 6}) {
      const QkvShape s = {tokens, 6, groups, 5};
      const auto qkv = check::random<float>(tokens * (6 + 2 * groups) * 5, 1);
      const auto parts = split(qkv, s);
      std::vector<float> merged(qkv.size());
      cpu::qkv_merge(merged.data(), parts.q.data(), parts.k.data(), parts.v.data(), s);
      EXPECT_EQ(merged, qkv) << tokens << " tokens, " << groups << " groups";
    }
}

}  // namespace
}  // namespace mt
