// States of tokens in the pages of a cache on the GPU, as the CPU keeps and finds them.
#include "kernels/past_states.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class PastStatesCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(PastStatesCuda, check::ElementTypes);

TYPED_TEST(PastStatesCuda, PlacesOfTokens) {
  using T = TypeParam;
  for (const PastStatesShape& s :
       {PastStatesShape{6, 3, 1000, 8, 2}, PastStatesShape{33, 1, 7, 16, 3}}) {
    std::vector<std::int32_t> positions, slots, first(static_cast<std::size_t>(s.tokens));
    for (std::int64_t t = 0; t < s.tokens; ++t)
      positions.push_back(static_cast<std::int32_t>(t % (s.tokens / s.sequences) + t / 3 % 2));
    for (std::int64_t i = s.sequences * s.runs; i > 0; --i)
      slots.push_back(static_cast<std::int32_t>(i - 1));
    const DeviceArray<std::int32_t> at(positions), of(slots), keys(first.size());
    const Input<T> x(s.tokens * s.cols, 1), states(s.sequences * s.runs * s.capacity * s.cols, 2);
    const Numbers<T> before(s.tokens * s.cols);
    std::vector<double> host = states.host, host_before(x.host.size());
    cpu::states_before(host_before.data(), first.data(), host.data(), positions.data(),
                       slots.data(), 4, s);
    cuda::states_before<T>(before.data(), keys.data(), states.data(), at.data(), of.data(), 4, s,
                           nullptr);
    EXPECT_TRUE(near(before, host_before, 0));
    EXPECT_EQ(keys.values(), first);
  }
}

TYPED_TEST(PastStatesCuda, Keeps) {
  using T = TypeParam;
  const PastStatesShape s{6, 3, 1000, 8, 2};
  const std::vector<std::int32_t> positions{0, 1, 7, 8, 14, 15}, slots{5, 4, 3, 2, 1, 0};
  const DeviceArray<std::int32_t> at(positions), of(slots);
  const Input<T> x(s.tokens * s.cols, 1), states(6 * s.capacity * s.cols, 2);
  std::vector<double> host = states.host;
  cpu::keep_states(host.data(), x.host.data(), positions.data(), slots.data(), s);
  cuda::keep_states<T>(states.device.data(), x.data(), at.data(), of.data(), s, nullptr);
  EXPECT_TRUE(near(states.device, host, 0));
}

}  // namespace
}  // namespace mt
