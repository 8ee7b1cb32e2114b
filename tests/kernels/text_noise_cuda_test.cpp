// Noise of texts on the GPU against the CPU's in double.
#include "kernels/text_noise.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;

template <class T>
class TextNoiseCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(TextNoiseCuda, check::ElementTypes);

TYPED_TEST(TextNoiseCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  const StepRecord record{.first_sample = 77};
  const DeviceArray<StepRecord> device_record(std::vector<StepRecord>{record});
  constexpr std::int64_t kSeqLength = 40;
  std::vector<std::int32_t> first_keys;
  for (std::int32_t i = 0; i < 3 * kSeqLength; ++i) first_keys.push_back(i % kSeqLength / 7 * 7);
  const DeviceArray<std::int32_t> device_keys(first_keys);
  for (const std::int64_t rows : {0, 1, 31, 33, 100})
    for (const std::int64_t cols : {1, 31, 33, 128, 1024}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      TextNoise noise{.alpha = 15,
                      .key = RandomKey::make(1234567890123, 9),
                      .seq_length = kSeqLength,
                      .first_row = 20,
                      .record = &record};
      const Input<T> y(rows * cols, 1);
      std::vector<double> expected = y.host;
      cpu::add_text_noise(expected.data(), first_keys.data(), rows, cols, noise);
      noise.record = device_record.data();
      cuda::add_text_noise(y.device.data(), device_keys.data(), rows, cols, noise, nullptr);
      EXPECT_TRUE(near(y.device, expected));
      // One text of each sequence.
      const std::vector<std::int32_t> lengths = {5, 0, 40};
      const DeviceArray<std::int32_t> device_lengths(lengths);
      const Input<T> again(rows * cols, 1);
      expected = again.host;
      noise.record = &record;
      noise.lengths = lengths.data();
      cpu::add_text_noise<double>(expected.data(), nullptr, rows, cols, noise);
      noise.record = device_record.data();
      noise.lengths = device_lengths.data();
      cuda::add_text_noise<T>(again.device.data(), nullptr, rows, cols, noise, nullptr);
      EXPECT_TRUE(near(again.device, expected));
    }
}

}  // namespace
}  // namespace mt
