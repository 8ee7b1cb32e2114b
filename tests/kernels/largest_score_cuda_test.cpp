// The largest scores of attention on the GPU against the CPU's in double.
#include "kernels/largest_score.h"

#include <limits>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class LargestScoreCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(LargestScoreCuda, check::ElementTypes);

// With groups of queries, windows and documents; all tokens' scores may be below zero.
std::vector<AttentionShape> shapes() {
  const auto shape = [](std::int64_t sequences, std::int64_t length, std::int64_t heads,
                        std::int64_t kv_heads, std::int64_t head_dim) {
    return AttentionShape{.sequences = sequences,
                          .q_length = length,
                          .kv_length = length,
                          .kv_stride = length,
                          .heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim,
                          .scale = 0.3};
  };
  std::vector<AttentionShape> all{shape(1, 1, 1, 1, 8),     shape(2, 31, 4, 4, 64),
                                  shape(2, 200, 6, 2, 128), shape(1, 333, 3, 3, 192),
                                  shape(1, 150, 5, 1, 256), shape(3, 65, 2, 2, 17)};
  all.push_back(all[2]);
  all.back().window = 20;
  all.push_back(all[3]);
  all.back().causal = false;
  return all;
}

TYPED_TEST(LargestScoreCuda, IsTheCpus) {
  using T = TypeParam;
  for (const AttentionShape& s : shapes())
    for (const bool documents : {false, true})
      for (const bool below : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.sequences << " x " << s.q_length << ", " << s.heads
                                        << "/" << s.kv_heads << " of " << s.head_dim << ", window "
                                        << s.window << ", " << documents << below);
        const std::int64_t tokens = s.sequences * s.q_length;
        const Input<T> q(tokens * s.heads * s.head_dim, 1, 0, below ? 0.5 : -2, 2),
            k(tokens * s.kv_heads * s.head_dim, 2, 0, -2, below ? -0.5 : 2);
        std::vector<std::int32_t> first;
        for (std::int64_t i = 0; i < tokens; ++i)
          first.push_back(static_cast<std::int32_t>(i % s.q_length / 40 * 40));
        const DeviceArray<std::int32_t> first_there(first);
        std::vector<double> expected(static_cast<std::size_t>(s.heads),
                                     -std::numeric_limits<double>::infinity());
        expected[0] = 100;  // so far
        const Numbers<double> largest(expected, 0);
        const auto find = [&] {
          cuda::add_largest_scores(largest.data(), q.data(), k.data(),
                                   documents ? first_there.data() : nullptr, s, nullptr);
        };
        find();
        cpu::add_largest_scores(expected.data(), q.host.data(), k.host.data(),
                                documents ? first.data() : nullptr, s);
        EXPECT_TRUE(near(largest, expected, 1e-5));
        check::expect_same_bits(largest, 3, find);
      }
}

}  // namespace
}  // namespace mt
