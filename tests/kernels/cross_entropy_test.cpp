#include "kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

template <class T>
std::vector<T> loss_of(std::vector<T> logits, const std::vector<std::int32_t>& labels,
                       double smoothing = 0) {
  std::vector<T> loss(labels.size());
  const std::int64_t rows = std::ssize(labels);
  const std::int64_t vocab = rows ? std::ssize(logits) / rows : 1;
  cpu::cross_entropy<T>(loss.data(), logits.data(), labels.data(), nullptr, rows, vocab, vocab,
                        smoothing);
  return loss;
}

template <class T>
std::vector<T> gradient_of(std::vector<T> logits, const std::vector<std::int32_t>& labels,
                           const std::vector<T>& row_weight, double smoothing = 0) {
  std::vector<T> loss(labels.size());
  const std::int64_t vocab = std::ssize(logits) / std::ssize(labels);
  cpu::cross_entropy(loss.data(), logits.data(), labels.data(), row_weight.data(),
                     std::ssize(labels), vocab, vocab, smoothing);
  return logits;
}

std::vector<std::int32_t> some_labels(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) labels[r] = static_cast<std::int32_t>(r * 5 % vocab);
  return labels;
}

TEST(CrossEntropy, Golden) {
  EXPECT_NEAR(loss_of<double>({1, 2, 3, 4}, {2})[0], 1.4401896986, 1e-10);
  EXPECT_NEAR(loss_of<float>({1, 2, 3, 4}, {2})[0], 1.4401896986, 2e-7);
  EXPECT_NEAR(loss_of<double>({1, 2, 3, 4}, {2}, 0.1)[0], 1.5068563652, 1e-10);
  EXPECT_NEAR(loss_of<float>({1, 2, 3, 4}, {2}, 0.1)[0], 1.5068563652, 2e-7);
  EXPECT_EQ(loss_of<float>({3}, {0}, 0.1)[0], 0);
}

template <class T>
void check_loss(std::int64_t rows, std::int64_t vocab) {
  const auto logits = random<T>(rows * vocab, 1, -9, 9);
  const auto labels = some_labels(rows, vocab);
  std::vector<double> expected;
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < vocab; ++c) total += std::exp(double(logits[r * vocab + c]));
    expected.push_back(std::log(total) - logits[r * vocab + labels[r]]);
  }
  EXPECT_TRUE(check::near(loss_of(logits, labels), expected)) << rows << " x " << vocab;
}

TEST(CrossEntropy, Loss) {
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t vocab : {1, 31, 33, 30001}) {
      check_loss<float>(rows, vocab);
      check_loss<double>(rows, vocab);
    }
}

template <class T>
void check_nan() {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN(),
              kNone = -std::numeric_limits<T>::infinity();
  for (const std::int64_t vocab : {2, 33, 1000})
    for (const T others : {T(1), kNone})
      for (const std::int64_t at : {std::int64_t{0}, vocab / 2, vocab - 1}) {
        std::vector<T> logits(static_cast<std::size_t>(vocab), others);
        logits[at] = kNan;
        EXPECT_TRUE(std::isnan(loss_of<T>(logits, {1})[0])) << at << " of " << vocab;
      }
}

TEST(CrossEntropy, NanIsInTheLoss) {
  check_nan<float>();
  check_nan<double>();
}

TEST(CrossEntropy, WithoutWeightsLogitsStay) {
  std::vector<float> logits = {1, 2, 3}, loss(1);
  const std::int32_t label = 0;
  cpu::cross_entropy<float>(loss.data(), logits.data(), &label, nullptr, 1, 3, 3, 0);
  EXPECT_EQ(logits, (std::vector<float>{1, 2, 3}));
}

TEST(CrossEntropy, LargeLogits) {
  EXPECT_EQ(loss_of<float>({1000, -1000}, {0})[0], 0);
  EXPECT_EQ(loss_of<float>({1000, -1000}, {1})[0], 2000);
}

TEST(CrossEntropy, Derivatives) {
  const auto logits = random<double>(31 * 33, 1, -4, 4), row_weight = random<double>(31, 2);
  const auto labels = some_labels(31, 33);
  for (const double smoothing : {0.0, 0.1})
    check::expect_gradient(
        gradient_of(logits, labels, row_weight, smoothing),
        [&](const auto& at) { return check::dot(row_weight, loss_of(at, labels, smoothing)); },
        logits, 3);
}

TEST(CrossEntropy, FloatGradientFollowsDouble) {
  const auto logits = random<float>(33 * 257, 1, -9, 9), row_weight = random<float>(33, 2);
  const auto labels = some_labels(33, 257);
  EXPECT_TRUE(check::near(
      gradient_of(logits, labels, row_weight),
      gradient_of(check::convert<double>(logits), labels, check::convert<double>(row_weight))));
}

// Columns behind the vocabulary change no bit, whatever they hold, and have no gradient.
template <class T>
void check_padding(std::int64_t vocab, std::int64_t cols, double smoothing, T padding) {
  SCOPED_TRACE(testing::Message() << vocab << " of " << cols << ", " << padding);
  constexpr std::int64_t kRows = 7;
  const auto logits = random<T>(kRows * vocab, 1, -9, 9), weight = random<T>(kRows, 2);
  const auto labels = some_labels(kRows, vocab);
  const auto widened = [&](const std::vector<T>& rows, T behind) {
    std::vector<T> wide(static_cast<std::size_t>(kRows * cols), behind);
    for (std::int64_t r = 0; r < kRows; ++r) std::copy_n(&rows[r * vocab], vocab, &wide[r * cols]);
    return wide;
  };
  std::vector<T> wide = widened(logits, padding), loss(kRows);
  cpu::cross_entropy(loss.data(), wide.data(), labels.data(), weight.data(), kRows, cols, vocab,
                     smoothing);
  EXPECT_EQ(loss, loss_of(logits, labels, smoothing));
  EXPECT_EQ(wide, widened(gradient_of(logits, labels, weight, smoothing), T(0)));
}

TEST(CrossEntropy, PaddingOfTheVocabularyCountsNothing) {
  for (const double smoothing : {0.0, 0.1})
    for (const auto& [vocab, cols] : {std::pair{1, 128}, {31, 32}, {323, 384}, {1000, 1000}})
      for (const double padding : {0.0, 50.0, -50.0, HUGE_VAL, double(NAN)}) {
        check_padding<float>(vocab, cols, smoothing, static_cast<float>(padding));
        check_padding<double>(vocab, cols, smoothing, padding);
      }
}

TEST(CrossEntropy, SameBitsOnAnyThreads) {
  const auto logits = random<float>(200 * 384, 1), row_weight = random<float>(200, 2);
  check::expect_same_on_any_threads(
      [&] { return gradient_of(logits, some_labels(200, 384), row_weight); });
}

}  // namespace
}  // namespace mt
