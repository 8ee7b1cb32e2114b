// Losses of views and their gradients on a GPU are the CPU's.
#include <cmath>

#include "kernels/view_loss.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class ViewLossCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

std::vector<float> waves(std::int64_t count, float scale, float shift) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = shift + scale * std::sin(1.7F * static_cast<float>(i) + scale);
  return all;
}

TEST_F(ViewLossCuda, IsTheCpus) {
  for (const std::int64_t images : {0, 1, 5})
    for (const std::int64_t others : {1, 10})
      for (const std::int64_t cols : {1, 31, 33, 700}) {
        const Views views{.images = images, .others = others, .cols = cols};
        std::vector<float> s = waves(views.rows() * cols, 1, 0),
                           t = waves(2 * images * cols, 0.8F, 0);
        const std::vector<float> center = waves(cols, 0.3F, 0.1F),
                                 sharpness = waves(2 * images, 2, 20),
                                 weight = waves(views.rows(), 1, 2);
        const DeviceArray<float> d_s(s), d_t(t), d_center(center), d_sharpness(sharpness),
            d_weight(weight), d_loss(weight.size());
        cuda::view_loss(d_loss.data(), d_s.data(), d_t.data(), d_center.data(), d_sharpness.data(),
                        d_weight.data(), views, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        std::vector<float> loss(weight.size());
        cpu::view_loss(loss.data(), s.data(), t.data(), center.data(), sharpness.data(),
                       weight.data(), views);
        const auto got = d_loss.values(), slopes = d_s.values(), taught = d_t.values();
        for (std::size_t i = 0; i < loss.size(); ++i)
          ASSERT_NEAR(got[i], loss[i], 1e-5F * (1 + std::abs(loss[i]))) << cols << ", " << i;
        for (std::size_t i = 0; i < s.size(); ++i)
          ASSERT_NEAR(slopes[i], s[i], 1e-5F * (1 + std::abs(s[i]))) << cols << ", " << i;
        for (std::size_t i = 0; i < t.size(); ++i)
          ASSERT_NEAR(taught[i], t[i], 1e-5F) << cols << ", " << i;
      }
}

}  // namespace
}  // namespace mt
