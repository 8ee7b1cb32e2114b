// Sinks of attention on the GPU against the CPU's in double.
#include "kernels/attention_sink.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class AttentionSinkCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(AttentionSinkCuda, check::ElementTypes);

const SinkShape kShapes[] = {{0, 5, 3, 8}, {1, 1, 1, 1}, {2, 31, 3, 33}, {3, 33, 5, 64}};

TYPED_TEST(AttentionSinkCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const SinkShape& s : kShapes) {
    const std::int64_t queries = s.rows() * s.heads, count = queries * s.head_dim;
    SCOPED_TRACE(testing::Message() << queries << " queries of " << s.head_dim);
    const Input<T> found(count, 1, 0, 0.5, 1), d_o(count, 2, 0, 0.5, 1), sink(s.heads, 3, 0, 1, 2);
    const Input<float> sums(queries, 4, 0, 1, 2);
    for (const bool learnt : {true, false}) {
      const Numbers<T> o(found.host, 0);
      const Numbers<float> lse(sums.host, 0);
      std::vector<double> o_expected = found.host, lse_expected = sums.host;
      cuda::add_sink(o.data(), lse.data(), learnt ? sink.data() : nullptr, s, nullptr);
      cpu::add_sink(o_expected.data(), lse_expected.data(), learnt ? sink.host.data() : nullptr, s);
      EXPECT_TRUE(near(o, o_expected));
      EXPECT_TRUE(near(lse, lse_expected));
    }
    const std::vector<double> before(static_cast<std::size_t>(s.heads), 0.25);
    const Numbers<float> d_sink(before, 0);
    std::vector<double> expected = before;
    cuda::sink_backward(d_sink.data(), d_o.data(), found.data(), sums.data(), sink.data(), s,
                        nullptr);
    cpu::sink_backward(expected.data(), d_o.host.data(), found.host.data(), sums.host.data(),
                       sink.host.data(), s);
    EXPECT_TRUE(near(d_sink, expected));
  }
}

}  // namespace
}  // namespace mt
