// Losses of views and their gradients on a GPU are the CPU's.
#include <cmath>

#include "kernels/view_loss.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

template <class T>
inline constexpr float kViewTolerance = 1e-5F;
template <>
inline constexpr float kViewTolerance<check::bf16> = 1e-2F;
template <>
inline constexpr float kViewTolerance<check::fp16> = 2e-3F;

template <class T>
class ViewLossCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(ViewLossCuda, check::ElementTypes);

template <class T>
std::vector<float> as_float(const std::vector<T>& x) {
  std::vector<float> y;
  for (const T value : x) y.push_back(static_cast<float>(value));
  return y;
}

std::vector<float> waves(std::int64_t count, float scale, float shift) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = shift + scale * std::sin(1.7F * static_cast<float>(i) + scale);
  return all;
}

TYPED_TEST(ViewLossCuda, IsTheCpus) {
  using T = TypeParam;
  for (const std::int64_t images : {0, 1, 5})
    for (const std::int64_t others : {1, 10})
      for (const std::int64_t cols : {1, 31, 33, 700}) {
        const Views views{.images = images, .others = others, .cols = cols};
        const DeviceArray<T> d_s(check::convert<T>(waves(views.rows() * cols, 1, 0))),
            d_t(check::convert<T>(waves(2 * images * cols, 0.8F, 0)));
        std::vector<float> s = as_float(d_s.values()), t = as_float(d_t.values());
        const std::vector<float> center = waves(cols, 0.3F, 0.1F),
                                 sharpness = waves(2 * images, 2, 20),
                                 weight = waves(views.rows(), 1, 2);
        const DeviceArray<float> d_center(center), d_sharpness(sharpness), d_weight(weight),
            d_loss(weight.size());
        cuda::view_loss(d_loss.data(), d_s.data(), d_t.data(), d_center.data(), d_sharpness.data(),
                        d_weight.data(), views, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        std::vector<float> loss(weight.size());
        cpu::view_loss(loss.data(), s.data(), t.data(), center.data(), sharpness.data(),
                       weight.data(), views);
        const auto got = d_loss.values(), slopes = as_float(d_s.values()),
                   taught = as_float(d_t.values());
        for (std::size_t i = 0; i < loss.size(); ++i)
          ASSERT_NEAR(got[i], loss[i], kViewTolerance<T> * (1 + std::abs(loss[i])))
              << cols << ", " << i;
        for (std::size_t i = 0; i < s.size(); ++i)
          ASSERT_NEAR(slopes[i], s[i], kViewTolerance<T> * (1 + std::abs(s[i])))
              << cols << ", " << i;
        for (std::size_t i = 0; i < t.size(); ++i)
          ASSERT_NEAR(taught[i], t[i], kViewTolerance<T>) << cols << ", " << i;
      }
}

}  // namespace
}  // namespace mt
