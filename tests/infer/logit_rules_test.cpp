#include "infer/logit_rules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "infer/sampling.h"

namespace mt {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
const std::vector<double> kLogits = {2, 1, 0.5, 0, -1, -3};

// A prompt, and what was made behind it.
std::vector<double> changed(const LogitRules& rules, std::vector<std::int32_t> prompt,
                            const std::vector<std::int32_t>& made,
                            const std::vector<std::int32_t>& ends = {}, double temperature = 1) {
  std::vector<double> logits = kLogits;
  const std::size_t size = prompt.size();
  prompt.insert(prompt.end(), made.begin(), made.end());
  rules.apply(logits, prompt, size, ends, temperature);
  return logits;
}

std::vector<double> probabilities(const std::vector<double>& logits) {
  double sum = 0;
  std::vector<double> p;
  for (const double z : logits) sum += p.emplace_back(std::exp(z));
  for (double& x : p) x /= sum;
  return p;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 5e-7) << i;
}

TEST(LogitRules, NoneChangeNothing) {
  EXPECT_FALSE(LogitRules().any());
  EXPECT_EQ(changed({}, {0, 1}, {2}), kLogits);
}

// Values worked out from the formulas in the header.
TEST(LogitRules, Penalties) {
  expect_near(changed({.repetition_penalty = 1.2}, {0}, {4}), {1.6666667, 1, 0.5, 0, -1.2, -3});
  const std::vector<double> counted =
      changed({.frequency_penalty = 0.5, .presence_penalty = 0.25}, {5}, {0, 2, 0});
  expect_near(counted, {0.75, 1, -0.25, 0, -1, -3});
  expect_near(probabilities(counted), {0.301063, 0.386573, 0.110755, 0.142212, 0.052317, 0.00708});
}

TEST(LogitRules, Bias) {
  expect_near(probabilities(changed({.bias = {{3, 1}}}, {0}, {})),
              {0.496176, 0.182533, 0.110712, 0.182533, 0.024703, 0.003343});
  EXPECT_EQ(changed({.bias = {{0, kNever}}}, {0}, {})[0], kNever);
}

TEST(LogitRules, MinP) {
  const auto kept = [](double min_p, double temperature) {
    std::vector<std::int32_t> ids;
    const std::vector<double> logits = changed({.min_p = min_p}, {0}, {}, {}, temperature);
    for (std::int32_t id = 0; id < std::ssize(logits); ++id)
      if (logits[static_cast<std::size_t>(id)] != kNever) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(kept(0.1, 1), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept(0.25, 1), (Ids{0, 1}));
  EXPECT_EQ(kept(0.1, 0.5), (Ids{0, 1}));
  EXPECT_EQ(kept(0.25, 2), (Ids{0, 1, 2, 3}));
}

// All of them, and then a temperature, top-k and top-p.
TEST(LogitRules, ComeBeforeTheChoice) {
  const std::vector<double> logits = changed({.bias = {{3, 1}},
                                              .repetition_penalty = 1.2,
                                              .frequency_penalty = 0.5,
                                              .presence_penalty = 0.25,
                                              .min_p = 0.05},
                                             {}, {0}, {}, 0.7);
  const std::vector<Candidate> all =
      cpu::candidates(logits, {.temperature = 0.7, .top_k = 3, .top_p = 0.9});
  double sum = 0;
  std::map<std::int32_t, double> weights;
  for (const Candidate& candidate : all) sum += weights[candidate.id] = candidate.weight;
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_NEAR(weights[0] / sum, 0.307423, 5e-7);
  EXPECT_NEAR(weights[1] / sum, 0.346289, 5e-7);
  EXPECT_NEAR(weights[3] / sum, 0.346289, 5e-7);
}

TEST(LogitRules, TokensThatAreNotAllowed) {
  const LogitRules two{.min_tokens = 2};
  EXPECT_EQ(changed(two, {0}, {1}, {3, 5})[3], kNever);
  EXPECT_EQ(changed(two, {0}, {1}, {3, 5})[5], kNever);
  EXPECT_EQ(changed(two, {0}, {1, 1}, {3, 5}), kLogits);
  EXPECT_EQ(changed(two, {0}, {1}, {-1, 6, 1 << 20}), kLogits);  // which the model has not
  const LogitRules behind{.never_behind = {{1, 0}}};
  EXPECT_EQ(changed(behind, {0}, {1})[0], kNever);
  EXPECT_EQ(changed(behind, {1}, {})[0], kNever);
  EXPECT_EQ(changed(behind, {1}, {0}), kLogits);
}

}  // namespace
}  // namespace mt
