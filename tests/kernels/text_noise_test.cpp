#include "kernels/text_noise.h"

#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Two sequences of seven tokens, of texts of 3, 1, 3 and of 7 tokens.
const std::vector<std::int32_t> kFirstKeys = {0, 0, 0, 3, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0};
constexpr std::int64_t kLengths[] = {3, 3, 3, 1, 3, 3, 3, 7, 7, 7, 7, 7, 7, 7};
const StepRecord kRecord = {.first_sample = (1ll << 32) + 5};
const TextNoise kNoise = {
    .alpha = 5, .key = RandomKey::make(1234, 7), .seq_length = 7, .record = &kRecord};

TEST(TextNoise, IsLessTheLongerATextIs) {
  for (const std::int64_t cols : {1, 6, 64}) {
    std::vector<double> y(static_cast<std::size_t>(14 * cols), 2);
    cpu::add_text_noise(y.data(), kFirstKeys.data(), 14, cols, kNoise);
    for (std::int64_t r = 0; r < 14; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const Counter words =
            philox({static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(r % 7), 1,
                    static_cast<std::uint32_t>(5 + r / 7)},
                   kNoise.key);
        const double u = 2 * to_unit(words[static_cast<std::size_t>(c % 4)]) - 1;
        EXPECT_DOUBLE_EQ(y[static_cast<std::size_t>(r * cols + c)],
                         2 + 5 / std::sqrt(static_cast<double>(kLengths[r] * cols)) * u);
      }
  }
}

TEST(TextNoise, OfSomeRowsIsThatOfAll) {
  std::vector<float> all(14 * 33), part(9 * 33);
  cpu::add_text_noise(all.data(), kFirstKeys.data(), 14, 33, kNoise);
  TextNoise noise = kNoise;
  noise.first_row = 5;
  cpu::add_text_noise(part.data(), kFirstKeys.data(), 9, 33, noise);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 5 * 33));
}

// Of texts in front of padding the same as of those that others follow.
TEST(TextNoise, GoesByLengths) {
  std::vector<double> expected(14 * 6), y(14 * 6);
  cpu::add_text_noise(expected.data(), kFirstKeys.data(), 14, 6, kNoise);
  const std::int32_t lengths[] = {3, 7};
  TextNoise noise = kNoise;
  noise.lengths = lengths;
  cpu::add_text_noise<double>(y.data(), nullptr, 14, 6, noise);
  for (std::size_t i = 0; i < y.size(); ++i)
    if (i / 6 < 3 || i / 6 >= 7) {
      EXPECT_EQ(y[i], expected[i]) << i;
    }
}

TEST(TextNoise, IsUniform) {
  const std::vector<std::int32_t> one_text(1000);
  std::vector<double> y(1000 * 64);
  TextNoise noise = kNoise;
  noise.seq_length = 1000;
  noise.alpha = std::sqrt(1000 * 64.0);
  cpu::add_text_noise(y.data(), one_text.data(), 1000, 64, noise);
  double sum = 0, squares = 0;
  for (const double x : y) {
    EXPECT_LT(std::fabs(x), 1);
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<double>(y.size());
  EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(1 / 3.0 / count));
  EXPECT_NEAR(squares / count, 1 / 3.0, 5 * std::sqrt(4 / 45.0 / count));
}

}  // namespace
}  // namespace mt
