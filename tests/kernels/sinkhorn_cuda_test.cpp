// Sinkhorn's keys and the jitter of routers' inputs on the GPU against the CPU's in double.
#include "kernels/sinkhorn.h"

#include "tests/kernels/device_array.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class SinkhornCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(SinkhornCuda, check::ElementTypes);

// Rounds end where keys no longer change much, on either side.
TYPED_TEST(SinkhornCuda, KeysAreTheCpus) {
  using T = TypeParam;
  for (const auto& [tokens, experts] : {std::pair(1, 1), {31, 5}, {300, 33}, {1000, 64}}) {
    SCOPED_TRACE(testing::Message() << tokens << " x " << experts);
    const Input<T> z(tokens * experts, 1, 0, -2, 2);
    const Numbers<float> keys(tokens * experts, 0), work(tokens + 2 * experts, 0);
    std::vector<double> expected(z.host.size()),
        scratch(static_cast<std::size_t>(tokens + 2 * experts));
    cuda::sinkhorn(keys.data(), work.data(), z.data(), tokens, experts, nullptr);
    cpu::sinkhorn(expected.data(), scratch.data(), z.host.data(), tokens, experts);
    EXPECT_TRUE(near(keys, expected, 1e-4));
  }
}

TYPED_TEST(SinkhornCuda, JitterIsTheCpus) {
  using T = TypeParam;
  const StepRecord record{.first_sample = 5};
  const check::DeviceArray<StepRecord> there(std::vector<StepRecord>{record});
  for (const auto& [rows, cols] : {std::pair(1, 1), {31, 33}, {7, 1000}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols);
    const Input<T> x(rows * cols, 1, 0, -2, 2);
    const Numbers<T> y(rows * cols, 0);
    Jitter by{{.p = 0.125, .key = RandomKey::make(7, 1), .seq_length = 4, .first_row = 3}};
    std::vector<double> expected(x.host.size());
    by.places.record = &record;
    cpu::jitter(expected.data(), x.host.data(), rows, cols, by);
    by.places.record = there.data();
    cuda::jitter(y.data(), x.data(), rows, cols, by, nullptr);
    EXPECT_TRUE(near(y, expected));
  }
}

}  // namespace
}  // namespace mt
