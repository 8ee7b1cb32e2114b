#include "kernels/latent_heads.h"

#include <numeric>

#include "tests/kernels/check.h"

namespace mt {
namespace {

// One token of two heads, with a channel that stays, two that turn, and one of a value: what turns
// comes first, and behind a value there are zeros.
TEST(LatentHeads, OrderOfChannels) {
  const std::vector<float> q_rows{1, 2, 3, 4, 5, 6}, kv_rows{7, 8, 9, 10}, turning{11, 12};
  std::vector<float> q(6, -1), k(6, -1), v(6, -1);
  cpu::latent_heads_forward<float>({q.data(), k.data(), v.data()},
                                   {q_rows.data(), kv_rows.data(), turning.data()},
                                   {1, 2, 1, 2, 1});
  EXPECT_EQ(q, (std::vector<float>{2, 3, 1, 5, 6, 4}));
  EXPECT_EQ(k, (std::vector<float>{11, 12, 7, 11, 12, 9}));
  EXPECT_EQ(v, (std::vector<float>{8, 0, 0, 10, 0, 0}));
}

// The backward is the forward's transpose: <dy, f(x)> = <f^T dy, x>.
TEST(LatentHeads, BackwardIsTheTranspose) {
  for (const std::int64_t tokens : {0, 1, 33, 600})
    for (const std::int64_t values : {1, 5, 9}) {
      const LatentHeads s{tokens, 3, 3, 4, values};
      const auto numbers = [&](std::int64_t width, unsigned seed) {
        return check::random<double>(tokens * width, seed);
      };
      const std::int64_t all = s.heads * s.width();
      const auto q_rows = numbers(s.heads * s.q_width(), 1),
                 kv_rows = numbers(s.heads * s.kv_width(), 2), turning = numbers(s.turning, 3),
                 dq = numbers(all, 4), dk = numbers(all, 5), dv = numbers(all, 6);
      std::vector<double> q(dq.size()), k(dq.size()), v(dq.size()), dq_rows(q_rows.size()),
          dkv_rows(kv_rows.size()), d_turning(turning.size());
      cpu::latent_heads_forward<double>({q.data(), k.data(), v.data()},
                                        {q_rows.data(), kv_rows.data(), turning.data()}, s);
      cpu::latent_heads_backward<double>({dq_rows.data(), dkv_rows.data(), d_turning.data()},
                                         {dq.data(), dk.data(), dv.data()}, s);
      const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
      };
      EXPECT_NEAR(dot(dq, q) + dot(dk, k) + dot(dv, v),
                  dot(dq_rows, q_rows) + dot(dkv_rows, kv_rows) + dot(d_turning, turning), 1e-9)
          << tokens << " tokens, " << values << " channels of a value";
    }
}

TEST(LatentHeads, ColumnsAreSplitAndMerged) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<float> a(4), b(2), again(6), padded(6, -1);
  cpu::split_columns(a.data(), b.data(), x.data(), 2, 2, 1);
  EXPECT_EQ(a, (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(b, (std::vector<float>{3, 6}));
  cpu::merge_columns(again.data(), a.data(), b.data(), 2, 2, 1);
  EXPECT_EQ(again, x);
  cpu::merge_columns<float>(padded.data(), a.data(), nullptr, 2, 2, 1);
  EXPECT_EQ(padded, (std::vector<float>{1, 2, 0, 4, 5, 0}));
}

}  // namespace
}  // namespace mt
