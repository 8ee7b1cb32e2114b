// Losses, hits and gradients of retrieval on a GPU are the CPU's.
#include "kernels/retrieval_loss.h"

#include <cmath>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class RetrievalLossCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(RetrievalLossCuda, IsTheCpus) {
  for (const std::int64_t n : {1, 31, 33, 300})
    for (const std::int64_t each : {1, 3}) {
      const RetrievalShape shape{.n = n, .each = each};
      const RetrievalTops tops{.count = 3, .top = {1, 5, 20}};
      // Some scores are equal.
      std::vector<float> scores(static_cast<std::size_t>(n * shape.contexts())),
          weight(static_cast<std::size_t>(n)), loss(weight.size()), hit(3 * weight.size());
      for (std::size_t i = 0; i < scores.size(); ++i)
        scores[i] = std::round(20 * std::sin(1.7F * static_cast<float>(i))) / 4;
      for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 3);
      const DeviceArray<float> d_scores(scores), d_plain(scores), d_weight(weight),
          d_loss(loss.size()), d_hit(hit.size());
      cuda::retrieval_loss(d_loss.data(), d_hit.data(), d_plain.data(), nullptr, shape, tops,
                           nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_plain.values(), scores);
      cuda::retrieval_loss(d_loss.data(), d_hit.data(), d_scores.data(), d_weight.data(), shape,
                           tops, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      cpu::retrieval_loss<float>(loss.data(), hit.data(), scores.data(), weight.data(), shape,
                                 tops);
      EXPECT_EQ(d_hit.values(), hit);
      const auto got = d_loss.values(), gradient = d_scores.values();
      for (std::size_t i = 0; i < loss.size(); ++i)
        ASSERT_NEAR(got[i], loss[i], 1e-5F * (1 + std::abs(loss[i]))) << n << ", " << i;
      for (std::size_t i = 0; i < scores.size(); ++i)
        ASSERT_NEAR(gradient[i], scores[i], 1e-5F * (1 + std::abs(scores[i]))) << n << ", " << i;
    }
}

TEST_F(RetrievalLossCuda, NothingIsFoundByWhatIsNoNumber) {
  const float nan = std::nanf("");
  const RetrievalTops tops{.count = 2, .top = {1, 20}};
  const DeviceArray<float> scores({nan, nan, nan, 2, nan, 1, 1, 0, nan}), loss(3), hit(6);
  cuda::retrieval_loss(loss.data(), hit.data(), scores.data(), nullptr, {.n = 3, .each = 1}, tops,
                       nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(hit.values(), std::vector<float>(6));
  const DeviceArray<float> others({5, 0, nan, 3, 5, 0, nan, nan, 7});
  cuda::retrieval_loss(loss.data(), hit.data(), others.data(), nullptr, {.n = 3, .each = 1}, tops,
                       nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(hit.values(), (std::vector<float>{0, 100, 0, 100, 100, 100}));
}

}  // namespace
}  // namespace mt
