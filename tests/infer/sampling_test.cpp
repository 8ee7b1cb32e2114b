#include "infer/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

namespace mt {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

std::int32_t token_of(const std::vector<double>& logits, const Sampling& rule, TokenPlace place) {
  return cpu::sample(logits, {rule, place});
}

std::vector<double> logits_of(const std::vector<double>& probabilities) {
  std::vector<double> logits;
  for (const double p : probabilities) logits.push_back(std::log(p) + 5);  // any constant will do
  return logits;
}

// How often each token comes at places 0, 1, ..., count - 1.
std::vector<double> frequencies(const std::vector<double>& logits, const Sampling& options,
                                std::uint32_t count) {
  std::vector<double> share(logits.size());
  for (std::uint32_t i = 0; i < count; ++i)
    share[static_cast<std::size_t>(token_of(logits, options, {i % 7, i % 3, i / 7}))] += 1;
  for (double& x : share) x /= count;
  return share;
}

// Five standard deviations; the seed is fixed, so that a test that passes once always does.
void expect_distribution(const std::vector<double>& logits, const Sampling& options,
                         const std::vector<double>& expected) {
  constexpr std::uint32_t kCount = 50000;
  const std::vector<double> share = frequencies(logits, options, kCount);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(share[i], expected[i], 5 * std::sqrt(expected[i] * (1 - expected[i]) / kCount))
        << "token " << i;
}

TEST(Sampling, GreedyTakesTheLargest) {
  const Sampling greedy{.temperature = 0};
  EXPECT_EQ(token_of(std::vector<double>{1, 3, 2}, greedy, {}), 1);
  EXPECT_EQ(token_of(std::vector<double>{-5}, greedy, {}), 0);
  EXPECT_EQ(token_of(std::vector<double>{kNone, -1e300, kNone}, greedy, {}), 1);
}

TEST(Sampling, TiesGoToTheSmallerId) {
  const std::vector<double> logits{1, 3, 3, 3, 2};
  EXPECT_EQ(token_of(logits, {.temperature = 0}, {}), 1);
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(token_of(logits, {.top_k = 1}, {0, 0, i}), 1);
  }
}

TEST(Sampling, TopKOfOneAndASmallTopPAreGreedy) {
  const std::vector<double> logits{0.1, 0.3, 0.2, 0.29};
  for (const double temperature : {1e-300, 0.5, 1.0, 100.0})
    for (std::uint32_t i = 0; i < 100; ++i) {
      EXPECT_EQ(token_of(logits, {.temperature = temperature, .top_k = 1}, {0, 0, i}), 1);
      EXPECT_EQ(token_of(logits, {.temperature = temperature, .top_p = 1e-9}, {0, 0, i}), 1);
      EXPECT_EQ(token_of(logits, {.temperature = temperature, .top_p = 0.2}, {0, 0, i}), 1);
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

// The probabilities of what may be drawn, by id; spec: Megatron's filters on these logits.
TEST(Sampling, FiltersAsMegatron) {
  struct Golden {
    Sampling options;
    std::vector<double> kept;  // of the first tokens
  };
  const std::vector<double> z{2, 1, 0.5, 0, -1, -3};
  const Golden goldens[] = {
      {{}, {0.560893, 0.206341, 0.125152, 0.075909, 0.027925, 0.003779}},
      {{.top_p = 1}, {0.560893, 0.206341, 0.125152, 0.075909, 0.027925, 0.003779}},
      {{.top_p = 0.5}, {1}},
      {{.top_p = 0.6}, {0.731059, 0.268941}},
      {{.top_p = 0.8}, {0.628532, 0.231224, 0.140244}},
      {{.top_p = 0.9}, {0.579259, 0.213097, 0.129250, 0.078394}},
      {{.top_p = 0.95}, {0.579259, 0.213097, 0.129250, 0.078394}},
      {{.temperature = 0.5, .top_p = 0.8}, {1}},
      {{.temperature = 0.5, .top_p = 0.9}, {0.880797, 0.119203}},
      {{.temperature = 2, .top_p = 0.8}, {0.408701, 0.247890, 0.193057, 0.150353}},
      {{.temperature = 0.7, .top_k = 3}, {0.736936, 0.176607, 0.086457}}};
  const auto check = [](const std::vector<double>& logits, const Golden& golden) {
    std::vector<Candidate> kept = cpu::candidates(logits, golden.options);
    ASSERT_EQ(kept.size(), golden.kept.size());
    double total = 0;
    for (const Candidate& c : kept) total += c.weight;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].id, static_cast<std::int32_t>(i));
      EXPECT_NEAR(kept[i].weight / total, golden.kept[i], 1e-6);
    }
  };
  for (const Golden& golden : goldens) check(z, golden);
  check({3, 2, 2, 1}, {{.top_k = 2}, {0.576117, 0.211942, 0.211942}});  // a tie is kept
}

// Log-probabilities are of the logits as they are, whatever the temperature.
TEST(Sampling, LogProbabilities) {
  const std::vector<double> z{2, 1, 0.5, 0, -1, -3};
  const LogProbs probs = log_probs(z, 3, 2);
  EXPECT_NEAR(probs.chosen, -2.578224, 1e-6);
  EXPECT_EQ(probs.rank, 4);
  ASSERT_EQ(probs.top.size(), 2U);
  EXPECT_EQ(probs.top[1].first, 1);
  EXPECT_NEAR(probs.top[1].second, -1.578224, 1e-6);
  EXPECT_EQ(log_probs(z, 0, 100).top.size(), 6U);
  EXPECT_NEAR(log_probs(std::vector<double>{1000, 999}, 0, 0).chosen, -0.313262, 1e-6);
}

// Many tokens: as many as count are sorted.
TEST(Sampling, TopPOfALargeVocabulary) {
  std::vector<double> logits(5000);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<double>(i * 7919 % 5000) / 1000;
  std::vector<Candidate> all = cpu::candidates(logits, {});
  std::ranges::sort(all, std::greater(), &Candidate::weight);
  double total = 0;
  for (const Candidate& c : all) total += c.weight;
  for (const double top_p : {0.001, 0.02, 0.3, 0.7, 0.999}) {
    const std::vector<Candidate> kept = cpu::candidates(logits, {.top_p = top_p});
    double sum = 0;
    for (const Candidate& c : kept) sum += c.weight;
    EXPECT_GT(sum, top_p * total);
    EXPECT_LE(sum - kept.back().weight, top_p * total);
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), all.begin()));
  }
}

TEST(Sampling, IsAFunctionOfItsPlaceAndSeed) {
  const std::vector<double> logits(1000, 0.0);
  std::set<std::int32_t> seen;
  for (std::uint32_t prompt = 0; prompt < 5; ++prompt)
    for (std::uint32_t token = 0; token < 5; ++token) {
      const std::int32_t chosen = token_of(logits, {}, {prompt, 0, token});
      EXPECT_EQ(token_of(logits, {}, {prompt, 0, token}), chosen);
      seen.insert(chosen);
    }
  EXPECT_GT(seen.size(), 20U);
  EXPECT_NE(token_of(logits, {.seed = 1}, {0, 0}), token_of(logits, {.seed = 2}, {0, 0}));
}

TEST(Sampling, LogitsThatAreNotNumbers) {
  const std::vector<double> logits{1, std::nan(""), 2};
  for (const double temperature : {0.0, 1.0}) try {
      token_of(logits, {.temperature = temperature}, {});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_data);
    }
}

}  // namespace
}  // namespace mt
