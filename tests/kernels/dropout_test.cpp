#include "kernels/dropout.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

const StepRecord kRecord = {.first_sample = (1ll << 32) + 12};
const Dropout kDropout = {
    .p = 0.1, .key = RandomKey::make(1234, 7), .seq_length = 10, .record = &kRecord};

// The rule of DESIGN D5, word by word.
bool kept(std::int64_t row, std::int64_t channel, const Dropout& d) {
  const auto sample = static_cast<std::uint32_t>(d.record->first_sample + row / d.seq_length);
  channel += d.first_channel;
  const Counter words = philox({static_cast<std::uint32_t>(channel / 4),
                                static_cast<std::uint32_t>(row % d.seq_length), 0, sample},
                               d.key);
  return words[channel % 4] >= static_cast<std::uint32_t>(d.p * 4294967296.0);
}

template <class T>
class DropoutTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutTest, Types);

TYPED_TEST(DropoutTest, ForwardAndBackwardFollowTheRule) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 31, 33, 700})
    for (const std::int64_t cols : {0, 1, 31, 33})
      for (const double p : {0.0, 0.1, 0.75}) {
        Dropout dropout = kDropout;
        dropout.p = p;
        dropout.first_channel = rows % 7;
        const auto x = random<T>(rows * cols, 1), residual = random<T>(rows * cols, 2),
                   bias = random<T>(cols, 3);
        std::vector<T> y(x.size()), alone(x.size()), dx(x.size());
        cpu::bias_dropout_add(y.data(), residual.data(), x.data(), bias.data(), rows, cols,
                              dropout);
        cpu::bias_dropout_add<T>(alone.data(), nullptr, x.data(), nullptr, rows, cols, dropout);
        cpu::dropout_backward(dx.data(), x.data(), rows, cols, dropout);
        std::vector<double> expected(x.size()), masked(x.size());
        for (std::int64_t i = 0; i < rows * cols; ++i) {
          const double factor = p == 0 || kept(i / cols, i % cols, dropout) ? 1 / (1 - p) : 0;
          expected[i] = residual[i] + factor * (double(x[i]) + bias[i % cols]);
          masked[i] = factor * x[i];
        }
        EXPECT_TRUE(check::near(y, expected)) << rows << " x " << cols << ", p " << p;
        EXPECT_TRUE(check::near(alone, masked)) << rows << " x " << cols << ", p " << p;
        EXPECT_TRUE(check::near(dx, masked)) << rows << " x " << cols << ", p " << p;
      }
}

TEST(Dropout, InPlace) {
  const auto x = random<float>(33 * 31, 1), residual = random<float>(33 * 31, 2);
  std::vector<float> y(x.size()), onto_x = x, onto_residual = residual;
  cpu::bias_dropout_add<float>(y.data(), residual.data(), x.data(), nullptr, 33, 31, kDropout);
  cpu::bias_dropout_add<float>(onto_x.data(), residual.data(), onto_x.data(), nullptr, 33, 31,
                               kDropout);
  cpu::bias_dropout_add<float>(onto_residual.data(), onto_residual.data(), x.data(), nullptr, 33,
                               31, kDropout);
  EXPECT_EQ(onto_x, y);
  EXPECT_EQ(onto_residual, y);
}

// Of a million elements a tenth is dropped, to five standard deviations.
TEST(Dropout, DropsItsShare) {
  const std::vector<float> ones(1000000, 1);
  std::vector<float> y(ones.size());
  cpu::bias_dropout_add<float>(y.data(), nullptr, ones.data(), nullptr, 1000, 1000, kDropout);
  const double dropped = double(std::count(y.begin(), y.end(), 0.0f));
  EXPECT_NEAR(dropped, 1e5, 5 * std::sqrt(1e6 * 0.1 * 0.9));
}

// The mask of a sample does not depend on which micro-batch holds it.
TEST(Dropout, MaskFollowsTheSample) {
  const std::vector<float> ones(40 * 33, 1);
  std::vector<float> all(ones.size()), part(20 * 33);
  cpu::bias_dropout_add<float>(all.data(), nullptr, ones.data(), nullptr, 40, 33, kDropout);
  const StepRecord later = {.first_sample = kRecord.first_sample + 2};
  Dropout dropout = kDropout;
  dropout.record = &later;
  cpu::bias_dropout_add<float>(part.data(), nullptr, ones.data(), nullptr, 20, 33, dropout);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 20 * 33));
}

TEST(Dropout, SameBitsOnAnyThreads) {
  const auto x = random<float>(900 * 65, 1);
  check::expect_same_on_any_threads([&] {
    std::vector<float> y(x.size());
    cpu::bias_dropout_add(y.data(), x.data(), x.data(), x.data(), 900, 65, kDropout);
    return y;
  });
}

}  // namespace
}  // namespace mt
