// The GPU's random numbers are the CPU's, bit for bit.
#include "kernels/fill_random.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

template <class T>
class FillRandomCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(FillRandomCuda, check::ElementTypes);

TYPED_TEST(FillRandomCuda, AsOnTheCpu) {
  using T = TypeParam;
  const RandomKey key = RandomKey::make(99, 3);
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{7}, (std::int64_t{3} << 33) + 1})
    for (const std::int64_t count : {1, 2, 5, 1000, 3000003}) {
      SCOPED_TRACE(testing::Message() << count << " from " << first);
      const auto n = static_cast<std::size_t>(count);
      std::vector<float> expected(n);
      const DeviceArray<T> y(n);
      const auto same = [&] {
        const std::vector<T> got = y.values();
        for (std::size_t i = 0; i < n; ++i)
          if (static_cast<float>(got[i]) != static_cast<float>(T(expected[i])))
            return testing::AssertionFailure() << i;
        return testing::AssertionSuccess();
      };
      cpu::fill_normal(expected.data(), first, count, 0.5, 2.0, key);
      cuda::fill_normal(y.data(), first, count, 0.5, 2.0, key, nullptr);
      EXPECT_TRUE(same());
      cpu::fill_uniform(expected.data(), first, count, 0.1, key);
      cuda::fill_uniform(y.data(), first, count, 0.1, key, nullptr);
      EXPECT_TRUE(same());
    }
}

}  // namespace
}  // namespace mt
