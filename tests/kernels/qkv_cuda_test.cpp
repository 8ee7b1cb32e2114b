// Rotary embedding and the split of fused projections on the GPU against the CPU's in double.
#include "kernels/qkv.h"

#include "kernels/rope.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class QkvCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(QkvCuda, check::ElementTypes);

struct Case {
  QkvShape shape;
  std::int64_t rotary_dim, seq_length, first_position, offset = 0;
  bool interleaved = false;
};
const Case kCases[] = {{{0, 2, 1, 8}, 8, 4, 0},
                       {{1, 1, 1, 2}, 2, 1, 0},
                       {{31, 3, 3, 6}, 4, 31, 5},
                       {{33, 4, 2, 64}, 64, 11, 0},
                       {{40, 8, 2, 128}, 128, 20, 7},
                       {{40, 8, 8, 128}, 32, 40, 0},
                       {{33, 16, 4, 128}, 128, 33, 0, 1},
                       {{64, 2, 2, 64}, 64, 64, 1000000 - 64},
                       {{21, 4, 1, 80}, 80, 21, 3, 0, true},
                       {{21, 4, 4, 64}, 32, 7, 0, 0, true},
                       {{9, 3, 1, 10}, 6, 9, 0, 0, true},
                       {{300, 40, 8, 64}, 64, 100, 0}};

RopeShape rope_shape(const Case& c, std::int64_t heads) {
  return {.tokens = c.shape.tokens,
          .heads = heads,
          .head_dim = c.shape.head_dim,
          .rotary_dim = c.rotary_dim,
          .seq_length = c.seq_length,
          .first_position = c.first_position,
          .interleaved = c.interleaved};
}

std::vector<double> inv_freq(std::int64_t rotary_dim) {
  std::vector<double> f;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i)
    f.push_back(std::pow(10000.0, -2.0 * double(i) / double(rotary_dim)));
  return f;
}

// The table of a case on the device.
struct Table {
  explicit Table(const Case& c)
      : frequencies(inv_freq(c.rotary_dim)),
        device_frequencies(frequencies),
        table(std::min(c.shape.tokens, c.seq_length) * c.rotary_dim) {
    cuda::rope_table(table.data(), device_frequencies.data(), rope_shape(c, 1), nullptr);
  }
  std::vector<double> frequencies;
  DeviceArray<double> device_frequencies;
  Numbers<float> table;
};

TYPED_TEST(QkvCuda, Rope) {
  for (const Case& c : kCases)
    for (const bool inverse : {false, true}) {
      const RopeShape s = rope_shape(c, c.shape.heads);
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.heads << " of " << s.head_dim);
      const Table table(c);
      Input<TypeParam> x(s.tokens * s.heads * s.head_dim, 1, c.offset);
      cuda::rope(x.device.data(), table.table.data(), s, inverse, nullptr);
      cpu::rope(x.host.data(), table.frequencies.data(), s, inverse);
      EXPECT_TRUE(near(x.device, x.host));
    }
}

TYPED_TEST(QkvCuda, SplitAndMerge) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    const QkvShape& s = c.shape;
    SCOPED_TRACE(testing::Message() << s.tokens << " tokens, " << s.heads << "/" << s.groups
                                    << " heads of " << s.head_dim);
    const std::int64_t of_q = s.tokens * s.heads * s.head_dim;
    const std::int64_t of_k = s.tokens * s.groups * s.head_dim;
    const Input<T> qkv(of_q + 2 * of_k, 1, c.offset);
    const Numbers<T> q(of_q, c.offset), k(of_k, c.offset), v(of_k, c.offset);
    const Numbers<T> merged(of_q + 2 * of_k, c.offset);
    std::vector<double> host_q(of_q), host_k(of_k), host_v(of_k);

    cuda::qkv_split(q.data(), k.data(), v.data(), qkv.data(), s, nullptr);
    cpu::qkv_split(host_q.data(), host_k.data(), host_v.data(), qkv.host.data(), s);
    EXPECT_TRUE(near(q, host_q, 0));
    EXPECT_TRUE(near(k, host_k, 0));
    EXPECT_TRUE(near(v, host_v, 0));
    cuda::qkv_merge<T>(merged.data(), q.data(), k.data(), v.data(), s, nullptr);
    EXPECT_TRUE(near(merged, qkv.host, 0));
  }
}

TYPED_TEST(QkvCuda, PackedRope) {
  for (const Case& c : kCases)
    for (const bool inverse : {false, true}) {
      RopeShape s = rope_shape(c, c.shape.heads + 2 * c.shape.groups);
      s.packed_group = c.shape.heads / c.shape.groups + 2;
      SCOPED_TRACE(testing::Message() << s.tokens << " x " << s.heads << " of " << s.head_dim);
      const Table table(c);
      Input<TypeParam> x(s.tokens * s.heads * s.head_dim, 1, c.offset);
      cuda::rope(x.device.data(), table.table.data(), s, inverse, nullptr);
      cpu::rope(x.host.data(), table.frequencies.data(), s, inverse);
      EXPECT_TRUE(near(x.device, x.host));
    }
}

class RopeTableCuda : public check::CudaTest<float> {};

// Sines and cosines of positions up to a million: rounded once from double.
TEST_F(RopeTableCuda, IsExact) {
  const Case c{{512, 1, 1, 128}, 128, 512, 1000000 - 511};
  const Table table(c);
  const std::vector<float> got = table.table.bits();
  for (std::int64_t p = 0; p < 512; ++p)
    for (std::int64_t i = 0; i < 64; ++i) {
      const double angle = double(c.first_position + p) * table.frequencies[i];
      ASSERT_NEAR(got[p * 128 + i], std::cos(angle), 0x1p-24) << p << ", " << i;
      ASSERT_NEAR(got[p * 128 + 64 + i], std::sin(angle), 0x1p-24) << p << ", " << i;
    }
}

}  // namespace
}  // namespace mt
