// Means of texts on the GPU against the CPU's in double.
#include "kernels/text_means.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

template <class T>
class TextMeansCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(TextMeansCuda, check::ElementTypes);

TYPED_TEST(TextMeansCuda, AgreeWithTheCpu) {
  using T = TypeParam;
  const std::vector<std::int32_t> first = {0, 1, 40, 40, 72, 109, 0},
                                  count = {1, 31, 0, 33, 37, 700, 3};
  const check::DeviceArray<std::int32_t> device_first(first), device_count(count);
  const std::int64_t texts = std::ssize(first);
  for (const std::int64_t cols : {1, 31, 64, 65, 1024}) {
    SCOPED_TRACE(cols);
    const check::Input<T> x(809 * cols, 1, 0);
    const check::Numbers<float> mean(texts * cols, 0);
    std::vector<double> expected(static_cast<std::size_t>(texts * cols));
    cpu::text_means(expected.data(), x.host.data(), {first.data(), count.data(), texts}, cols);
    cuda::text_means(mean.data(), x.data(), {device_first.data(), device_count.data(), texts}, cols,
                     nullptr);
    EXPECT_TRUE(near(mean, expected, 1e-6));
  }
  cuda::text_means(nullptr, static_cast<const T*>(nullptr), {}, 64, nullptr);
}

}  // namespace
}  // namespace mt
