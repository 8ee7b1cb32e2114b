// What a model learns of its teacher is on a GPU what it is on the CPU.
#include <cmath>

#include "kernels/distill_loss.h"
#include "kernels/hidden_loss.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class DistillCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

std::vector<float> numbers(std::size_t count, float by) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = 3 * std::sin(by * static_cast<float>(i) + by);
  return all;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 std::int64_t columns) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-5F * (1 + std::abs(expected[i])))
        << i << " of rows of " << columns;
}

TEST_F(DistillCuda, LossesAndGradients) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t columns : {1, 31, 33, 1000, 5000})
    for (const Distance& distance : {Distance{2, 0}, Distance{1, 1}, Distance{1.5, 0.3}}) {
      const auto size = static_cast<std::size_t>(kRows * columns);
      const std::vector<float> x = numbers(size, 1.7F), y = numbers(size, 0.9F),
                               weight = numbers(2 * kRows, 0.4F);
      const std::vector<std::int32_t> labels(kRows, static_cast<std::int32_t>(columns / 2));
      const VocabularyPart part{kRows, columns, 0, std::max<std::int64_t>(1, columns - 1), 1};
      std::vector<float> own = x, sums(kDistillSums * kRows), parts(2 * kRows), loss(2 * kRows);
      const DistillRows<float, float> host{own.data(),  y.data(), labels.data(),
                                           sums.data(), part,     distance};
      cpu::distill_sums(sums.data(), host);
      cpu::distill_parts(parts.data(), host);
      cpu::distill_gradient(loss.data(), weight.data(), parts.data(), host);
      const DeviceArray<float> d_x(x), d_y(y), d_weight(weight), d_sums(sums.size()),
          d_parts(parts.size()), d_loss(loss.size());
      const DeviceArray<std::int32_t> d_labels(labels);
      const DistillRows<float, float> device{d_x.data(),    d_y.data(), d_labels.data(),
                                             d_sums.data(), part,       distance};
      cuda::distill_sums(d_sums.data(), device, nullptr);
      cuda::distill_parts(d_parts.data(), device, nullptr);
      cuda::distill_gradient(d_loss.data(), d_weight.data(), d_parts.data(), device, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      expect_near(d_loss.values(), loss, columns);
      expect_near(d_x.values(), own, columns);
    }
}

TEST_F(DistillCuda, HiddenStates) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t columns : {1, 31, 33, 1000})
    for (const HiddenLoss kind : {HiddenLoss::cosine, HiddenLoss::squared}) {
      const auto size = static_cast<std::size_t>(kRows * columns);
      const std::vector<float> x = numbers(size, 1.7F), y = numbers(size, 0.9F),
                               weight = numbers(kRows, 0.4F);
      std::vector<float> loss(kRows), dx(size, 1);
      const DeviceArray<float> d_loss(loss.size()), d_dx(dx), d_x(x), d_y(y), d_weight(weight);
      cpu::hidden_loss(loss.data(), dx.data(), x.data(), y.data(), weight.data(), kRows, columns,
                       kind);
      cuda::hidden_loss(d_loss.data(), d_dx.data(), d_x.data(), d_y.data(), d_weight.data(), kRows,
                        columns, kind, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      expect_near(d_loss.values(), loss, columns);
      expect_near(d_dx.values(), dx, columns);
    }
}

}  // namespace
}  // namespace mt
