// Cross-entropy on the GPU against the CPU's in double.
#include "kernels/cross_entropy.h"

#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class CrossEntropyCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(CrossEntropyCuda, check::ElementTypes);

struct Case {
  std::int64_t rows, vocab, offset;
  double range, smoothing;
};
constexpr Case kCases[] = {{0, 10, 0, 3, 0},      {1, 1, 0, 3, 0.1},       {3, 31, 0, 3, 0},
                           {31, 33, 1, 3, 0.1},   {5, 1000, 0, 300, 0},    {9, 4096, 0, 5, 0.1},
                           {3, 50257, 0, 10, 0},  {3, 131072, 0, 20, 0.2}, {3, 50304, 0, 10, 0.1},
                           {301, 24576, 0, 5, 0}, {601, 4096, 0, 5, 0.1}};

std::vector<std::int32_t> make_labels(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int32_t> labels;
  for (std::int64_t r = 0; r < rows; ++r)
    labels.push_back(static_cast<std::int32_t>((r * 7919 + vocab - 1) % vocab));
  return labels;
}

TYPED_TEST(CrossEntropyCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const auto& [rows, vocab, offset, range, smoothing] : kCases) {
    SCOPED_TRACE(testing::Message() << rows << " x " << vocab << ", smoothing " << smoothing);
    const std::vector<std::int32_t> labels = make_labels(rows, vocab);
    const DeviceArray<std::int32_t> device_labels(labels);
    Input<T> logits(rows * vocab, 1, offset, -range, range);
    const Input<float> weight(rows, 2, 0, 0, 2);
    const Numbers<float> loss(rows);
    std::vector<double> expected(rows);
    cuda::cross_entropy<T>(loss.data(), logits.device.data(), device_labels.data(), nullptr, rows,
                           vocab, vocab, smoothing, nullptr);
    EXPECT_TRUE(near(logits.device, logits.host, 0));  // as they were
    const std::vector<float> alone = loss.bits();
    cuda::cross_entropy<T>(loss.data(), logits.device.data(), device_labels.data(), weight.data(),
                           rows, vocab, vocab, smoothing, nullptr);
    EXPECT_TRUE(check::same_bits(loss.bits(), alone));
    cpu::cross_entropy(expected.data(), logits.host.data(), labels.data(), weight.host.data(), rows,
                       vocab, vocab, smoothing);
    EXPECT_TRUE(near(loss, expected));
    EXPECT_TRUE(near(logits.device, logits.host));
  }
}

// Of the columns the first are words: in whole packs and not, in rows that are held and are not.
TYPED_TEST(CrossEntropyCuda, PaddingOfTheVocabularyCountsNothing) {
  using T = TypeParam;
  constexpr std::int64_t kRows = 5;
  constexpr std::pair<std::int64_t, std::int64_t> kWordsOf[] = {
      {1, 128},       {323, 384},     {31, 33},         {4089, 4096},    {2049, 4096},
      {50257, 50304}, {50257, 51200}, {130000, 131072}, {524281, 524288}};
  for (const auto& [vocab, cols] : kWordsOf)
    for (const double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE(testing::Message() << vocab << " of " << cols << ", smoothing " << smoothing);
      const std::vector<std::int32_t> labels = make_labels(kRows, vocab);
      const DeviceArray<std::int32_t> device_labels(labels);
      Input<T> logits(kRows * cols, 1, 0, -5, 5);
      const Input<float> weight(kRows, 2, 0, 0, 2);
      const Numbers<float> loss(kRows), of_sums(kRows), sums(4 * kRows);
      std::vector<double> expected(kRows);
      const VocabularyPart all{.rows = kRows, .cols = cols, .vocab = vocab};
      cuda::cross_entropy_sums<T>(sums.data(), logits.device.data(), device_labels.data(), all,
                                  nullptr);
      cuda::cross_entropy_part<T>(of_sums.data(), logits.device.data(), device_labels.data(),
                                  nullptr, sums.data(), all, smoothing, nullptr);
      cuda::cross_entropy<T>(loss.data(), logits.device.data(), device_labels.data(), weight.data(),
                             kRows, cols, vocab, smoothing, nullptr);
      cpu::cross_entropy(expected.data(), logits.host.data(), labels.data(), weight.host.data(),
                         kRows, cols, vocab, smoothing);
      EXPECT_TRUE(near(loss, expected));
      EXPECT_TRUE(near(of_sums, expected));
      EXPECT_TRUE(near(logits.device, logits.host));
    }
}

// Alone in its pack or with it NaN, in the first pack behind -infinity or in the last.
TYPED_TEST(CrossEntropyCuda, NanIsInTheLoss) {
  using T = TypeParam;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  constexpr std::int64_t kRows = 4, kPack = 8;
  for (const std::int64_t vocab : {31, 1000, 4096, 131072, 524288}) {
    SCOPED_TRACE(testing::Message() << vocab << " words");
    std::vector<double> logits = check::random<double>(kRows * vocab, 1, -2, 2);
    logits[vocab + kPack] = kNan;
    std::fill_n(&logits[2 * vocab], kPack, kNan);
    std::fill_n(&logits[3 * vocab], vocab, kNone);
    logits[4 * vocab - 1] = kNan;
    const Numbers<T> device(logits, 0);
    const DeviceArray<std::int32_t> labels(std::vector<std::int32_t>(kRows, 20));
    const Numbers<float> loss(kRows);
    cuda::cross_entropy<T>(loss.data(), device.data(), labels.data(), nullptr, kRows, vocab, vocab,
                           0, nullptr);
    const Numbers<float> sums(4 * kRows), of_sums(kRows);
    const VocabularyPart all{.rows = kRows, .cols = vocab, .vocab = vocab};
    cuda::cross_entropy_sums<T>(sums.data(), device.data(), labels.data(), all, nullptr);
    cuda::cross_entropy_part<T>(of_sums.data(), device.data(), labels.data(), nullptr, sums.data(),
                                all, 0, nullptr);
    for (const Numbers<float>* of : {&loss, &of_sums}) {
      const std::vector<double> losses = of->values();
      EXPECT_TRUE(std::isfinite(losses[0]));
      for (int r = 1; r < kRows; ++r) EXPECT_TRUE(std::isnan(losses[r])) << "row " << r;
    }
  }
}

// Those cases with columns for three ranks and one more, which is left out; with and without
// padding, of the last rank and some of the one before.
TYPED_TEST(CrossEntropyCuda, OfColumnsThatRanksShare) {
  using T = TypeParam;
  constexpr int kRanks = 3;
  for (const auto& [rows, vocab, offset, range, smoothing] : kCases) {
    if (rows == 0 || vocab % kRanks != 1) continue;
    SCOPED_TRACE(testing::Message() << rows << " x " << vocab << ", smoothing " << smoothing);
    const std::int64_t cols = (vocab - 1) / kRanks, whole = cols * kRanks;
    if (cols == 0) continue;
    for (const std::int64_t words : {whole, whole - cols - cols / 2}) {
      std::vector<std::int32_t> labels = make_labels(rows, words);
      const DeviceArray<std::int32_t> device_labels(labels);
      const Input<float> weight(rows, 2, 0, 0, 2);
      const Numbers<float> sums(kRanks * 4 * rows);
      std::deque<Input<T>> parts;
      std::vector<double> logits(rows * whole), expected(rows);
      const auto part = [&](int rank) {
        return VocabularyPart{
            .rows = rows, .cols = cols, .first = rank * cols, .vocab = words, .ranks = kRanks};
      };
      for (int rank = 0; rank < kRanks; ++rank) {
        const Input<T>& own = parts.emplace_back(rows * cols, 10 + rank, offset, -range, range);
        for (std::int64_t r = 0; r < rows; ++r)
          std::copy_n(&own.host[r * cols], cols, &logits[r * whole + rank * cols]);
        cuda::cross_entropy_sums<T>(sums.data() + rank * 4 * rows, own.device.data(),
                                    device_labels.data(), part(rank), nullptr);
      }
      cpu::cross_entropy(expected.data(), logits.data(), labels.data(), weight.host.data(), rows,
                         whole, words, smoothing);
      for (int rank = 0; rank < kRanks; ++rank) {
        const Numbers<float> loss(rows);
        Numbers<T>& own = parts[rank].device;
        const std::vector<double> before = parts[rank].host;
        cuda::cross_entropy_part<T>(loss.data(), own.data(), device_labels.data(), nullptr,
                                    sums.data(), part(rank), smoothing, nullptr);
        EXPECT_TRUE(near(loss, expected));
        EXPECT_TRUE(near(own, before, 0));  // as they were
        cuda::cross_entropy_part<T>(loss.data(), own.data(), device_labels.data(), weight.data(),
                                    sums.data(), part(rank), smoothing, nullptr);
        std::vector<double> gradient(rows * cols);
        for (std::int64_t r = 0; r < rows; ++r)
          std::copy_n(&logits[r * whole + rank * cols], cols, &gradient[r * cols]);
        EXPECT_TRUE(near(loss, expected));
        EXPECT_TRUE(near(own, gradient)) << "columns of rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace mt
