// What painted images are worth on the GPU against the CPU's in double.
#include "kernels/image_quality.h"
#include "kernels/score_loss.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class ImageQualityCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(ImageQualityCuda, check::ElementTypes);

TYPED_TEST(ImageQualityCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const PatchedImages& shape :
       {PatchedImages{.images = 1, .height = 11, .width = 11, .patch = 11},
        PatchedImages{.images = 3, .height = 12, .width = 16, .patch = 4},
        PatchedImages{.images = 2, .height = 33, .width = 31, .patch = 1}, PatchedImages{}}) {
    SCOPED_TRACE(testing::Message()
                 << shape.images << " of " << shape.height << " x " << shape.width);
    const std::int64_t rows = shape.images == 0 ? 0 : shape.images * shape.patches();
    const Input<T> x(rows * shape.patch_width(), 1);
    const Input<float> t(rows * shape.patch_width(), 2);
    std::vector<double> painted;
    for (std::int64_t i = 0; i < rows; ++i) painted.push_back(i % 5 < 3 ? 1 : 0);
    const DeviceArray<float> mask(std::vector<float>(painted.begin(), painted.end()));
    std::vector<double> expected(static_cast<std::size_t>(3 * shape.images));
    const Numbers<float> similar(3 * shape.images);
    if (rows > 0)
      cpu::structural_similarity(expected.data(), x.host.data(), t.host.data(), painted.data(),
                                 shape);
    cuda::structural_similarity(similar.data(), x.device.data(), t.device.data(), mask.data(),
                                shape, nullptr);
    EXPECT_TRUE(near(similar, expected, 2e-5));  // a variance is a difference
  }
}

TYPED_TEST(ImageQualityCuda, LossesOfScoresAgreeWithTheCpu) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {1, 3, 31, 33, 768})
      for (const ScoreLoss kind : {ScoreLoss::squared, ScoreLoss::binary}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        const Input<T> x(rows * cols, 1);
        const Input<float> t(rows * cols, 2), weight(rows, 3);
        std::vector<double> slope = x.host, expected(static_cast<std::size_t>(rows));
        const Numbers<float> loss(rows);
        cpu::score_loss(expected.data(), slope.data(), t.host.data(), weight.host.data(), rows,
                        cols, kind);
        cuda::score_loss(loss.data(), x.device.data(), t.device.data(), weight.device.data(), rows,
                         cols, kind, nullptr);
        EXPECT_TRUE(near(loss, expected));
        EXPECT_TRUE(near(x.device, slope));
      }
}

TEST(DecibelsCuda, AgreeWithTheCpu) {
  if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  for (const double square : {0.0, 1.0, 0.25, 1e-4}) {
    double expected = square;
    cpu::to_decibels(&expected);
    const DeviceArray<double> x(std::vector<double>{square});
    cuda::to_decibels(x.data(), nullptr);
    double found = 0;
    check::check_cuda(cudaMemcpy(&found, x.data(), sizeof found, cudaMemcpyDeviceToHost));
    EXPECT_NEAR(found, expected, 1e-12);
  }
}

}  // namespace
}  // namespace mt
