#include "kernels/policy_loss.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

namespace mt {
namespace {

// Two texts in a row with a token of padding, whose losses are published beside the formulas.
struct Texts {
  std::vector<double> x = {.5, 1, 2, .3, .8, 9};
  std::vector<double> others = {-.7, -1,   -1.5, -.3, -1,   -1,   -.6, -.9, -1.8,
                                -.3, -1.1, -1,   -.6, -1.1, -1.4, -.4, -1,  -1};
  std::vector<double> advantage = {1, 1, -1, -1, -1, -1}, mask = {1, 1, 1, 1, 1, 0}, weight;
  std::vector<double> loss = std::vector<double>(kPolicyRows * 6, 7);
  std::vector<std::int32_t> lengths = {2, 3};

  const Texts& judge(const PolicyRules& rules) {
    cpu::policy_loss(PolicyTensors<double>{.loss = loss.data(),
                                           .x = x.data(),
                                           .others = others.data(),
                                           .advantage = advantage.data(),
                                           .mask = mask.data(),
                                           .weight = weight.empty() ? nullptr : weight.data(),
                                           .rows = {lengths.data(), 1, 6, 2}},
                     rules);
    return *this;
  }
  std::vector<double> row(std::size_t which) const {
    const auto at = loss.begin() + static_cast<std::ptrdiff_t>(6 * which);
    return {at, at + 6};
  }
  double of_tokens(std::size_t which = 0) const { return total(which, {1, 1, 1, 1, 1}) / 5; }
  double of_texts(std::size_t which = 0) const {
    return total(which, {1. / 2, 1. / 2, 1. / 3, 1. / 3, 1. / 3}) / 2;
  }
  double total(std::size_t which, const std::vector<double>& by) const {
    return std::inner_product(by.begin(), by.end(), row(which).begin(), 0.0);
  }
};

PolicyRules rules_with(const std::function<void(PolicyRules&)>& set) {
  PolicyRules rules;
  set(rules);
  return rules;
}

TEST(PolicyLoss, GoldensOfABatch) {
  const Texts plain = Texts().judge({});
  const double tokens[] = {-1.2, -1, .8, 1, 1.221403, 0};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(plain.row(0)[i], tokens[i], 1e-6) << i;
  EXPECT_NEAR(plain.of_tokens(), .164281, 1e-6);
  EXPECT_NEAR(plain.of_texts(), -.046433, 1e-6);
  EXPECT_NEAR(plain.total(0, {1, 1, 1, 1, 1}) / (2 * 4), .102675, 1e-6);
  EXPECT_NEAR(plain.of_tokens(2), 1.009867, 1e-6);
  EXPECT_EQ(plain.row(3), (std::vector<double>{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(plain.row(4), (std::vector<double>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(plain.row(5), (std::vector<double>{-.5, -1, -2, -.3, -.8, 0}));
  EXPECT_EQ(plain.x, Texts().x);
  // NeMo RL's estimate weighs nothing in value: its weight is 1, with a gradient.
  const Texts kl = Texts().judge(rules_with([](auto& r) {
    r.beta = .01;
    r.kl.weight = KlWeight::none;
  }));
  EXPECT_NEAR(kl.of_tokens(1), .014446, 1e-6);
  EXPECT_NEAR(kl.of_tokens(), .164425, 1e-6);
  EXPECT_NEAR(kl.of_texts(1), .012872, 1e-6);
  EXPECT_NEAR(kl.of_texts(), -.046304, 1e-6);
  const auto corrected = [](Correction how, double low, double high) {
    return Texts()
        .judge(rules_with([&](auto& r) {
          r.correction = how;
          r.correction_low = low;
          r.correction_high = high;
        }))
        .of_tokens();
  };
  EXPECT_NEAR(corrected(Correction::truncated, 0, 1e30), .171894, 1e-6);
  EXPECT_NEAR(corrected(Correction::truncated, 0, 1), .171894, 1e-6);
  EXPECT_NEAR(corrected(Correction::dropped, .95, 1.1), .244281, 1e-6);
  const Texts texts =
      Texts().judge(rules_with([](auto& r) { r.ratio_of = RatioOf::mean_of_text; }));
  EXPECT_NEAR(texts.row(2)[0], 1.105171, 1e-6);
  EXPECT_NEAR(texts.row(2)[4], .904837, 1e-6);
  EXPECT_NEAR(texts.of_texts(), -.100167, 1e-6);
  const Texts sapo = Texts().judge(rules_with([](auto& r) { r.loss = PolicyLoss::sapo; }));
  EXPECT_NEAR(sapo.of_texts(), -.130671, 1e-6);
}

TEST(PolicyLoss, GoldensOfATokenThatIsClipped) {
  struct Golden {
    double advantage, ratio, low, high, dual, expected;
  };
  for (const Golden& g : {Golden{1, 1.5, .2, .2, 0, -1.2},
                          {1, 1.5, .2, .28, 0, -1.28},
                          {1, .5, .2, .2, 0, -.5},
                          {-1, 1.5, .2, .2, 0, 1.5},
                          {-1, .5, .2, .2, 0, .8},
                          {-1, 5, .2, .2, 0, 5},
                          {-1, 5, .2, .2, 3, 3},
                          {-2, 4, .2, .28, 3, 6},
                          {1, 5, .2, .2, 3, -1.2}}) {
    const PolicyToken token{.log_ratio = std::log(g.ratio), .advantage = g.advantage};
    const PolicyRules rules{.low = g.low, .high = g.high, .dual = g.dual};
    EXPECT_NEAR(policy_step(token, rules).loss, g.expected, 1e-12) << g.advantage << " " << g.ratio;
  }
}

TEST(PolicyLoss, GoldensOfEstimatesAndMegatron) {
  const auto estimate = [](KlEstimate which) {
    return policy_step({.p = -1, .reference = -1.2},
                       {.beta = .1, .kl = {.estimate = which, .weight = KlWeight::none}})
        .kl;
  };
  EXPECT_NEAR(estimate(KlEstimate::k1), .2, 1e-12);
  EXPECT_NEAR(estimate(KlEstimate::k2), .02, 1e-12);
  EXPECT_NEAR(estimate(KlEstimate::k3), .018730753, 1e-9);
  PolicyToken token{.p = -1, .log_ratio = .1, .reference = -1.2, .advantage = 1};
  token.weight = std::exp(.2);
  PolicyRules rules{.low = .01, .high = .01, .beta = .001, .kl = {.weight = KlWeight::none}};
  EXPECT_NEAR(policy_step(token, rules).loss, -1.233598, 1e-6);
  token.weight = 1.1;
  rules.low = rules.high = .2;
  rules.entropy = .01;
  EXPECT_NEAR(policy_step(token, rules).loss, -1.219348, 1e-6);
}

// The first pass over a batch of two prompts of two texts each: every ratio is 1, and the slopes
// are the advantages, as each form divides them.
TEST(PolicyLoss, AWholeStepByHand) {
  Texts texts;
  texts.x = {1, 2, 3, 4, 5, 6};
  texts.others.assign(18, kUnknown);
  texts.advantage = {1, 1, -1, -1, 0, 0};
  texts.mask.assign(6, 1);
  texts.lengths = {2, 4};
  texts.weight.assign(6, 1. / 6);
  texts.judge({});
  EXPECT_NEAR(texts.total(0, {1, 1, 1, 1, 1, 1}), 0, 1e-12);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(texts.x[i], texts.advantage[i] / 6, 1e-12);
}

std::vector<PolicyRules> all_rules() {
  std::vector<PolicyRules> all;
  for (int loss = 0; loss <= int(PolicyLoss::vespo); ++loss)
    for (const RatioOf ratio_of : {RatioOf::tokens, RatioOf::mean_of_text, RatioOf::text})
      for (const KlWeight weight : {KlWeight::ratio, KlWeight::none, KlWeight::generated})
        for (int estimate = 0; estimate < 3; ++estimate) {
          PolicyRules rules;
          rules.loss = static_cast<PolicyLoss>(loss);
          if (ratio_of != RatioOf::tokens && rules.loss == PolicyLoss::vespo) continue;
          rules.ratio_of = ratio_of;
          if (rules.loss == PolicyLoss::cispo) rules.high = 1.1;
          rules.delta = estimate == 1 ? 1.15 : 0;
          rules.dual = estimate == 2 ? 1.1 : 0;
          rules.beta = .3;
          rules.entropy = .1;
          rules.kl = {.estimate = static_cast<KlEstimate>(estimate), .weight = weight};
          rules.correction = Correction::truncated;
          rules.correction_high = 1.05;
          all.push_back(rules);
        }
  return all;
}

// What cispo and vespo hold constant is held so by hand: their own loss is linear in p.
TEST(PolicyLoss, SlopesAreDerivatives) {
  for (PolicyRules rules : all_rules()) {
    Texts at;
    at.weight = {.3, .4, .5, .6, .7, .8};
    at.judge(rules);
    const Texts before = Texts().judge(rules);
    const bool constant = rules.loss == PolicyLoss::cispo || rules.loss == PolicyLoss::vespo;
    for (std::size_t i = 0; i < 5; ++i) {
      constexpr double h = 1e-6;
      const auto objective = [&](double step) {
        Texts moved;
        moved.x[i] += step;
        const std::vector<double> p = moved.x;
        moved.judge(rules);
        double sum = 0;
        for (std::size_t t = 0; t < 5; ++t) {
          double loss = moved.row(0)[t];
          if (constant) {  // the factor that it has here, with the factor there
            PolicyRules rest = rules;
            rest.loss = PolicyLoss::clipped;
            Texts others = Texts();
            others.x = p;
            others.advantage.assign(6, 0);
            others.judge(rest);
            Texts here;
            here.advantage.assign(6, 0);
            here.judge(rest);
            const double factor = (before.row(0)[t] - here.row(0)[t]) / Texts().x[t];
            loss = others.row(0)[t] + factor * p[t];
          }
          sum += at.weight[t] * loss;
        }
        return sum;
      };
      const double slope = (objective(h) - objective(-h)) / (2 * h);
      EXPECT_NEAR(at.x[i], slope, 1e-7 * (1 + std::abs(slope)))
          << int(rules.loss) << (rules.of_texts() ? " of texts " : " ") << i;
    }
    EXPECT_EQ(at.x[5], 0);
  }
}

// An estimate with the weight 1 that has a gradient: e is K, slopes are K' + K, and nothing where
// the logarithm or the estimate is beyond its bounds, but K's own where the latter is not.
TEST(PolicyLoss, WeightsAndBoundsOfEstimates) {
  const auto step = [](double reference, const KlRules& kl) {
    return policy_step({.p = -1, .log_ratio = .3, .reference = reference, .generated = -1.4},
                       {.beta = .5, .kl = kl});
  };
  const double k3 = std::expm1(-.2) + .2, slope = -std::expm1(-.2);
  const PolicyStep one = step(-1.2, {.weight = KlWeight::one});
  EXPECT_NEAR(one.kl, k3, 1e-12);
  EXPECT_NEAR(one.loss, .5 * k3, 1e-12);
  EXPECT_NEAR(one.by_p, .5 * (slope + k3), 1e-12);
  EXPECT_EQ(one.by_ratio, 0);
  const PolicyStep generated = step(-1.2, {.weight = KlWeight::generated});
  EXPECT_NEAR(generated.kl, k3 * std::exp(.4), 1e-12);
  EXPECT_NEAR(generated.by_p, .5 * std::exp(.4) * (slope + k3), 1e-12);
  const PolicyStep far = step(-1.2, {.weight = KlWeight::one, .most_log_ratio = .1});
  EXPECT_NEAR(far.kl, std::expm1(-.1) + .1, 1e-12);
  EXPECT_EQ(far.by_p, 0);
  const PolicyStep large = step(-1.2, {.weight = KlWeight::one, .most = .01});
  EXPECT_EQ(large.kl, .01);
  EXPECT_EQ(large.by_p, 0);
  EXPECT_NEAR(kl_of(-1, -1.2, {.estimate = KlEstimate::k1}), .2, 1e-12);
  EXPECT_NEAR(kl_of(-1, -1.2, {.estimate = KlEstimate::k1, .most = .15}), .15, 1e-12);
}

TEST(PolicyLoss, WhatDoesNotCountIsZero) {
  Texts texts;
  texts.weight.assign(6, 1);
  texts.mask = {0, 1, 0, 0, 0, 0};
  texts.x[0] = texts.x[5] = NAN;
  texts.judge(rules_with([](auto& r) { r.ratio_of = RatioOf::mean_of_text; }));
  for (std::size_t row = 0; row < kPolicyRows; ++row)
    for (const std::size_t i : {0U, 2U, 3U, 4U, 5U}) EXPECT_EQ(texts.row(row)[i], 0);
  EXPECT_EQ(texts.x[0], 0);
  EXPECT_EQ(texts.x[3], 0);
  EXPECT_NE(texts.x[1], 0);
}

}  // namespace
}  // namespace mt
