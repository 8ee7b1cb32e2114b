#include "infer/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace mt {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

std::vector<double> logits_of(const std::vector<double>& probabilities) {
  std::vector<double> logits;
  for (const double p : probabilities) logits.push_back(std::log(p) + 5);  // any constant will do
  return logits;
}

// How often each token comes at places 0, 1, ..., count - 1.
std::vector<double> frequencies(const std::vector<double>& logits, const SamplingOptions& options,
                                std::uint32_t count) {
  std::vector<double> share(logits.size());
  for (std::uint32_t i = 0; i < count; ++i)
    share[static_cast<std::size_t>(sample_token(logits, options, {i % 7, i / 7}))] += 1;
  for (double& x : share) x /= count;
  return share;
}

// Five standard deviations; the seed is fixed, so that a test that passes once always does.
void expect_distribution(const std::vector<double>& logits, const SamplingOptions& options,
                         const std::vector<double>& expected) {
  constexpr std::uint32_t kCount = 50000;
  const std::vector<double> share = frequencies(logits, options, kCount);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(share[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / kCount))
        << "token " << i;
}

TEST(Sampling, GreedyTakesTheLargest) {
  const SamplingOptions greedy{.temperature = 0};
  EXPECT_EQ(sample_token(std::vector<double>{1, 3, 2}, greedy, {}), 1);
  EXPECT_EQ(sample_token(std::vector<double>{-5}, greedy, {}), 0);
  EXPECT_EQ(sample_token(std::vector<double>{kNone, -1e300, kNone}, greedy, {}), 1);
}

TEST(Sampling, TiesGoToTheSmallerId) {
  const std::vector<double> logits{1, 3, 3, 3, 2};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, {}), 1);
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample_token(logits, {.top_k = 1}, {0, i}), 1);
    EXPECT_LE(sample_token(logits, {.top_k = 2}, {0, i}), 2);
  }
}

TEST(Sampling, TopKOfOneAndASmallTopPAreGreedy) {
  const std::vector<double> logits{0.1, 0.3, 0.2, 0.29};
  for (const double temperature : {1e-300, 0.5, 1.0, 100.0})
    for (std::uint32_t i = 0; i < 100; ++i) {
      EXPECT_EQ(sample_token(logits, {.temperature = temperature, .top_k = 1}, {0, i}), 1);
      EXPECT_EQ(sample_token(logits, {.temperature = temperature, .top_p = 0}, {0, i}), 1);
      EXPECT_EQ(sample_token(logits, {.temperature = temperature, .top_p = 0.2}, {0, i}), 1);
    }
}

TEST(Sampling, FollowsTheDistribution) {
  const std::vector<double> p{0.1, 0.5, 0.15, 0.25};
  expect_distribution(logits_of(p), {}, p);
  expect_distribution(logits_of(p), {.top_k = 10}, p);  // more than there are
}

TEST(Sampling, TemperatureIsAPowerOfTheProbabilities) {
  const std::vector<double> p{0.1, 0.5, 0.15, 0.25};
  for (const double temperature : {0.5, 2.0}) {
    std::vector<double> expected;
    double sum = 0;
    for (const double x : p) sum += expected.emplace_back(std::pow(x, 1 / temperature));
    for (double& x : expected) x /= sum;
    expect_distribution(logits_of(p), {.temperature = temperature}, expected);
  }
}

TEST(Sampling, TopK) {
  expect_distribution(logits_of({0.1, 0.5, 0.15, 0.25}), {.top_k = 2}, {0, 2.0 / 3, 0, 1.0 / 3});
}

// The smallest set of the likeliest tokens that has at least the probability asked for.
TEST(Sampling, TopP) {
  const std::vector<double> logits = logits_of({0.1, 0.5, 0.15, 0.25});
  expect_distribution(logits, {.top_p = 0.49}, {0, 1, 0, 0});
  expect_distribution(logits, {.top_p = 0.51}, {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution(logits, {.top_p = 0.74}, {0, 2.0 / 3, 0, 1.0 / 3});
  expect_distribution(logits, {.top_p = 0.76}, {0, 5.0 / 9, 1.5 / 9, 2.5 / 9});
  expect_distribution(logits, {.top_p = 1}, {0.1, 0.5, 0.15, 0.25});
  // Of what top-k leaves.
  expect_distribution(logits, {.top_k = 2, .top_p = 0.6}, {0, 1, 0, 0});
}

TEST(Sampling, IsAFunctionOfItsPlaceAndSeed) {
  const std::vector<double> logits(1000, 0.0);
  std::set<std::int32_t> seen;
  for (std::uint32_t text = 0; text < 5; ++text)
    for (std::uint32_t token = 0; token < 5; ++token) {
      const std::int32_t chosen = sample_token(logits, {}, {text, token});
      EXPECT_EQ(sample_token(logits, {}, {text, token}), chosen);
      seen.insert(chosen);
    }
  EXPECT_GT(seen.size(), 20U);
  EXPECT_NE(sample_token(logits, {.seed = 1}, {0, 0}), sample_token(logits, {.seed = 2}, {0, 0}));
}

TEST(Sampling, LogitsThatAreNotNumbers) {
  const std::vector<double> logits{1, std::nan(""), 2};
  for (const double temperature : {0.0, 1.0}) try {
      sample_token(logits, {.temperature = temperature}, {});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_data);
    }
}

}  // namespace
}  // namespace mt
