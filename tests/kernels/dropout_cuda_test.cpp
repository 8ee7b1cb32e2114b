// Dropout on the GPU against the CPU's in double: the same elements are dropped.
#include "kernels/dropout.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class DropoutCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(DropoutCuda, check::ElementTypes);

struct Case {
  std::int64_t rows, cols, offset;
  double p;
  std::int64_t first_channel = 0;
};
constexpr Case kCases[] = {{0, 8, 0, 0.1},     {1, 1, 0, 0.5},      {3, 31, 0, 0.1},
                           {31, 33, 0, 0.3},   {65, 128, 0, 0.1},   {65, 128, 1, 0.1},
                           {40, 768, 0, 0},    {200, 1024, 0, 0.9}, {33, 64, 0, 0.3, 128},
                           {33, 64, 0, 0.3, 5}};

TYPED_TEST(DropoutCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  const StepRecord record{.first_sample = 77};
  const DeviceArray<StepRecord> device_record(std::vector<StepRecord>{record});
  for (const auto& [rows, cols, offset, p, first_channel] : kCases) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << " at " << offset << ", p " << p);
    const Dropout on_host{.p = p,
                          .key = RandomKey::make(1234567890123, 9),
                          .seq_length = 20,
                          .first_channel = first_channel,
                          .record = &record};
    Dropout on_device = on_host;
    on_device.record = device_record.data();
    const std::int64_t count = rows * cols;
    // Away from 0, so that a dropped element is seen.
    const Input<T> x(count, 1, offset, 1, 2), bias(cols, 2, offset, 1, 2);
    const Input<T> residual(count, 3, offset);
    const Numbers<T> y(count, offset);
    std::vector<double> expected(count);
    for (const bool has_residual : {false, true})
      for (const bool has_bias : {false, true}) {
        cuda::bias_dropout_add<T>(y.data(), has_residual ? residual.data() : nullptr, x.data(),
                                  has_bias ? bias.data() : nullptr, rows, cols, on_device, nullptr);
        cpu::bias_dropout_add<double>(expected.data(),
                                      has_residual ? residual.host.data() : nullptr, x.host.data(),
                                      has_bias ? bias.host.data() : nullptr, rows, cols, on_host);
        EXPECT_TRUE(near(y, expected));
      }
    cuda::dropout_backward(y.data(), x.data(), rows, cols, on_device, nullptr);
    cpu::dropout_backward(expected.data(), x.host.data(), rows, cols, on_host);
    EXPECT_TRUE(near(y, expected));
    const std::vector<double> got = y.values();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i] == 0, expected[i] == 0) << "element " << i;
  }
}

}  // namespace
}  // namespace mt
