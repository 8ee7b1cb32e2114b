#include "kernels/distill_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/hidden_loss.h"

namespace mt {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kRows = 3, kWords = 7, kColumns = 8;

struct Result {
  Numbers loss, gradient;  // of all columns
};

// By so many who have equal parts of the columns.
Result distilled(const Numbers& x, const Numbers& y, const std::vector<std::int32_t>& labels,
                 const Numbers& weight, const Distance& distance, std::int64_t words, int ranks) {
  const auto rows = std::int64_t(labels.size()), columns = std::int64_t(x.size()) / rows,
             each = columns / ranks;
  std::vector<Numbers> own, its;
  Numbers sums(std::size_t(ranks * kDistillSums * rows)), parts(std::size_t(2 * rows));
  const auto part_of = [&](int rank, const double* all_sums) {
    return DistillRows<double, double>{own[std::size_t(rank)].data(),
                                       its[std::size_t(rank)].data(),
                                       labels.data(),
                                       all_sums,
                                       {rows, each, rank * each, words, all_sums ? ranks : 1},
                                       distance};
  };
  for (int rank = 0; rank < ranks; ++rank) {
    Numbers& a = own.emplace_back();
    Numbers& b = its.emplace_back();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = rank * each; c < (rank + 1) * each; ++c) {
        a.push_back(x[std::size_t(r * columns + c)]);
        b.push_back(y[std::size_t(r * columns + c)]);
      }
    cpu::distill_sums(sums.data() + rank * kDistillSums * rows, part_of(rank, nullptr));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Numbers share(parts.size());
    cpu::distill_parts(share.data(), part_of(rank, sums.data()));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += share[i];
  }
  Result result{Numbers(parts.size()), Numbers(x.size())};
  for (int rank = 0; rank < ranks; ++rank) {
    cpu::distill_gradient(result.loss.data(), weight.empty() ? nullptr : weight.data(),
                          parts.data(), part_of(rank, sums.data()));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < each; ++c)
        result.gradient[std::size_t(r * columns + rank * each + c)] =
            own[std::size_t(rank)][std::size_t(r * each + c)];
  }
  return result;
}

double distance_of(const Distance& distance) {
  return distilled({1, 0.5, -1}, {2, 0, -1}, {0}, {}, distance, 3, 1).loss[0];
}

// The values of the definitions, computed by hand.
TEST(DistillLoss, Golden) {
  EXPECT_NEAR(distance_of({.beta = 0}), 0.171808, 1e-6);
  EXPECT_NEAR(distance_of({.beta = 1}), 0.214896, 1e-6);
  const double half = distance_of({.beta = 0.5});
  EXPECT_GT(half, 0);
  EXPECT_LT(half, std::log(2));
}

Numbers wavy(std::size_t count, double by) {
  Numbers all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = 2 * std::sin(by * double(i) + by);
  return all;
}

class DistillLosses : public testing::TestWithParam<Distance> {};

INSTANTIATE_TEST_SUITE_P(All, DistillLosses,
                         testing::Values(Distance{1, 0}, Distance{2, 0}, Distance{1, 1},
                                         Distance{0.5, 1}, Distance{1, 0.5}, Distance{3, 0.2}));

// The gradient is that of finite differences, and no matter how many share the vocabulary; what
// pads it counts for nothing.
TEST_P(DistillLosses, GradientAndParts) {
  const Numbers x = wavy(kRows * kColumns, 1.3), y = wavy(kRows * kColumns, 0.7),
                weight = {1, 0, 2, 0.5, 0.25, 0};
  const std::vector<std::int32_t> labels = {0, 6, 3};
  const auto total = [&](const Numbers& at) {
    const Result result = distilled(at, y, labels, {}, GetParam(), kWords, 1);
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += weight[i] * result.loss[i];
    return sum;
  };
  const Result whole = distilled(x, y, labels, weight, GetParam(), kWords, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Numbers more = x, less = x;
    more[i] += 1e-5;
    less[i] -= 1e-5;
    EXPECT_NEAR(whole.gradient[i], (total(more) - total(less)) / 2e-5, 1e-8) << i;
    if (i % kColumns >= kWords) {
      EXPECT_EQ(whole.gradient[i], 0);
    }
  }
  for (const int ranks : {2, 4, 8}) {
    const Result parted = distilled(x, y, labels, weight, GetParam(), kWords, ranks);
    for (std::size_t i = 0; i < whole.loss.size(); ++i)
      EXPECT_NEAR(parted.loss[i], whole.loss[i], 1e-14);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(parted.gradient[i], whole.gradient[i], 1e-14) << i;
  }
}

// Of equal logits every distance is nothing.
TEST_P(DistillLosses, NothingOfEquals) {
  const Numbers x = wavy(kRows * kColumns, 1.3), weight = {1, 1, 1, 0, 0, 0};
  const Result result = distilled(x, x, {0, 1, 2}, weight, GetParam(), kWords, 1);
  for (std::size_t r = 0; r < kRows; ++r) EXPECT_NEAR(result.loss[r], 0, 1e-15);
  for (const double slope : result.gradient) EXPECT_NEAR(slope, 0, 1e-15);
}

TEST(HiddenLoss, GoldenAndGradient) {
  const Numbers a = {1, 0, 1}, b = {1, 1, 0};
  double loss = 0;
  cpu::hidden_loss<double>(&loss, nullptr, a.data(), b.data(), nullptr, 1, 3, HiddenLoss::cosine);
  EXPECT_NEAR(loss, 0.5, 1e-15);
  cpu::hidden_loss<double>(&loss, nullptr, a.data(), b.data(), nullptr, 1, 3, HiddenLoss::squared);
  EXPECT_NEAR(loss, 2.0 / 3, 1e-15);
  for (const HiddenLoss kind : {HiddenLoss::cosine, HiddenLoss::squared}) {
    const Numbers x = wavy(2 * 5, 1.1), y = wavy(2 * 5, 0.4), weight = {2, 0.5};
    const auto total = [&](const Numbers& at) {
      Numbers each(2);
      cpu::hidden_loss<double>(each.data(), nullptr, at.data(), y.data(), nullptr, 2, 5, kind);
      return weight[0] * each[0] + weight[1] * each[1];
    };
    Numbers each(2), dx(x.size(), 1);
    cpu::hidden_loss(each.data(), dx.data(), x.data(), y.data(), weight.data(), 2, 5, kind);
    for (std::size_t i = 0; i < x.size(); ++i) {
      Numbers more = x, less = x;
      more[i] += 1e-5;
      less[i] -= 1e-5;
      EXPECT_NEAR(dx[i] - 1, (total(more) - total(less)) / 2e-5, 1e-8) << i;
    }
  }
}

}  // namespace
}  // namespace mt
