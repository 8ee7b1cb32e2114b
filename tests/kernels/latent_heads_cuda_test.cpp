// Heads of latent attention on the GPU against the CPU's in double.
#include "kernels/latent_heads.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

constexpr LatentHeads kShapes[] = {
    {0, 2, 3, 4, 5}, {1, 1, 1, 2, 1}, {33, 3, 3, 4, 9}, {31, 16, 128, 64, 128}, {7, 5, 24, 8, 40}};

template <class T>
class LatentHeadsCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(LatentHeadsCuda, check::ElementTypes);

TYPED_TEST(LatentHeadsCuda, Forward) {
  using T = TypeParam;
  for (const LatentHeads& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.heads << " heads");
    const std::int64_t all = s.tokens * s.heads * s.width();
    const Input<T> q_rows(s.tokens * s.heads * s.q_width(), 1),
        kv_rows(s.tokens * s.heads * s.kv_width(), 2), turning(s.tokens * s.turning, 3);
    const Numbers<T> q(all), k(all), v(all);
    std::vector<double> host_q(all), host_k(all), host_v(all);
    cuda::latent_heads_forward<T>({q.data(), k.data(), v.data()},
                                  {q_rows.data(), kv_rows.data(), turning.data()}, s, nullptr);
    cpu::latent_heads_forward<double>(
        {host_q.data(), host_k.data(), host_v.data()},
        {q_rows.host.data(), kv_rows.host.data(), turning.host.data()}, s);
    EXPECT_TRUE(near(q, host_q, 0));
    EXPECT_TRUE(near(k, host_k, 0));
    EXPECT_TRUE(near(v, host_v, 0));
  }
}

TYPED_TEST(LatentHeadsCuda, Backward) {
  using T = TypeParam;
  for (const LatentHeads& s : kShapes) {
    SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.heads << " heads");
    const std::int64_t all = s.tokens * s.heads * s.width();
    const Input<T> dq(all, 1), dk(all, 2), dv(all, 3);
    const Numbers<T> q_rows(s.tokens * s.heads * s.q_width()),
        kv_rows(s.tokens * s.heads * s.kv_width()), turning(s.tokens * s.turning);
    std::vector<double> host_q(s.tokens * s.heads * s.q_width()),
        host_kv(s.tokens * s.heads * s.kv_width()), host_turning(s.tokens * s.turning);
    cuda::latent_heads_backward<T>({q_rows.data(), kv_rows.data(), turning.data()},
                                   {dq.data(), dk.data(), dv.data()}, s, nullptr);
    cpu::latent_heads_backward<double>({host_q.data(), host_kv.data(), host_turning.data()},
                                       {dq.host.data(), dk.host.data(), dv.host.data()}, s);
    EXPECT_TRUE(near(q_rows, host_q, 0));
    EXPECT_TRUE(near(kv_rows, host_kv, 0));
    EXPECT_TRUE(near(turning, host_turning));
  }
}

TYPED_TEST(LatentHeadsCuda, Columns) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 33}) {
    const Input<T> x(rows * 300, 1);
    const Numbers<T> a(rows * 257), b(rows * 43), again(rows * 300), padded(rows * 300);
    std::vector<double> host_a(rows * 257), host_b(rows * 43), host_padded(rows * 300);
    cuda::split_columns<T>(a.data(), b.data(), x.data(), rows, 257, 43, nullptr);
    cpu::split_columns(host_a.data(), host_b.data(), x.host.data(), rows, 257, 43);
    EXPECT_TRUE(near(a, host_a, 0));
    EXPECT_TRUE(near(b, host_b, 0));
    cuda::merge_columns<T>(again.data(), a.data(), b.data(), rows, 257, 43, nullptr);
    EXPECT_TRUE(near(again, x.host, 0));
    cuda::merge_columns<T>(padded.data(), a.data(), nullptr, rows, 257, 43, nullptr);
    cpu::merge_columns<double>(host_padded.data(), host_a.data(), nullptr, rows, 257, 43);
    EXPECT_TRUE(near(padded, host_padded, 0));
  }
}

}  // namespace
}  // namespace mt
