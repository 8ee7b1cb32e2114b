// Which experts tokens go to, beside numbers that Megatron-Core 0.12.1 and PyTorch gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/experts.h"
#include "nn/router_product.h"
#include "ops/expert_capacity.h"
#include "ops/given_experts.h"
#include "ops/ops.h"
#include "ops/quantile_balance.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

using Experts = std::vector<std::int32_t>;

const std::vector<double> kLogits = {1.2, -.4, .3, 2,   -1.1, .9,  .1,  -.2, .5, .5,   1.5, -.5,
                                     2.5, 0,   -2, 1,   -1,   2.2, .4,  .4,  .6, 1.8,  -.3, .2,
                                     0,   .1,  .2, .3,  .4,   .5,  .6,  .7,  3,  -3,   1,   1.1,
                                     0,   .2,  .9, -.8, .7,   1.7, -.6, .8,  .3, -1.5, 2.1, 1.4};
const std::vector<double> kBias = {0, .3, -.2, .1, 0, -.1, .2, 0};

class Routed {
 public:
  Routed(const std::vector<double>& logits, std::int64_t experts, std::int64_t chosen,
         const RouterRules& rules = {}, const std::vector<double>& bias = {})
      : rules_(rules),
        tokens_(std::ssize(logits) / experts),
        logits_(DType::f64, {tokens_, experts}),
        bias_(DType::f64, {experts}),
        expert_(DType::i32, {tokens_, chosen}),
        place_(DType::i32, {tokens_, chosen}),
        ends_(DType::i32, {experts}),
        weight_(DType::f64, {tokens_, chosen}) {
    fill_with(logits_, [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; });
    if (!bias.empty())
      fill_with(bias_, [&](std::int64_t i) { return bias[static_cast<std::size_t>(i)]; });
    choose_experts(expert_.view(), weight_.view(), logits_.view(),
                   bias.empty() ? ConstTensor() : bias_.view(), rules, stream_);
    place_rows(place_.view(), ends_.view(), expert_.view(), 0, stream_);
  }
  template <class T>
  static std::vector<T> values(const HostTensor& tensor) {
    const ConstTensor view = tensor.view();
    return {view.as<T>(), view.as<T>() + view.numel()};
  }
  Experts experts() const { return values<std::int32_t>(expert_); }
  Experts places() const { return values<std::int32_t>(place_); }
  Experts ends() const { return values<std::int32_t>(ends_); }
  std::vector<double> weights() const { return values<double>(weight_); }

  // The gradient of sum_i cos(i) weight_i.
  std::vector<double> gradient() {
    HostTensor d_weight(DType::f64, weight_.view().shape()),
        d_logits(DType::f64, logits_.view().shape());
    fill_with(d_weight, [](std::int64_t i) { return std::cos(static_cast<double>(i)); });
    choose_experts_backward(d_logits.view(), d_weight.view(), logits_.view(), expert_.view(),
                            rules_, stream_);
    return values<double>(d_logits);
  }

 private:
  RouterRules rules_;
  std::int64_t tokens_;
  HostTensor logits_, bias_, expert_, place_, ends_, weight_;
  Stream stream_{Device::cpu};
};

void expect_weights(const std::vector<double>& weights, const std::vector<double>& expected) {
  ASSERT_EQ(weights.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;
}

void expect_weights(const Routed& routed, const std::vector<double>& expected) {
  expect_weights(routed.weights(), expected);
}

TEST(Route, GoldenOfSoftmaxBehindTheChoice) {
  const Routed routed(kLogits, 8, 2);
  EXPECT_EQ(routed.experts(), (Experts{0, 3, 2, 4, 1, 5, 6, 7, 0, 3, 1, 6}));
  EXPECT_EQ(routed.ends(), (Experts{2, 4, 5, 7, 8, 9, 11, 12}));
  expect_weights(routed, {.310026, .689974, .268941, .731059, .598688, .401312, .475021, .524979,
                          .869892, .130108, .401312, .598688});
}

TEST(Route, GoldenOfSoftmaxBeforeTheChoice) {
  const Routed routed(kLogits, 8, 2, {.scores = RouterScores::softmax_of_all});
  EXPECT_EQ(routed.experts(), (Experts{0, 3, 2, 4, 1, 5, 6, 7, 0, 3, 1, 6}));
  expect_weights(routed, {.190311, .423545, .183512, .498837, .406339, .272377, .156367, .172812,
                          .648169, .096946, .227546, .339459});
}

TEST(Route, GoldenOfSigmoids) {
  expect_weights(Routed(kLogits, 8, 2, {.scores = RouterScores::sigmoid}),
                 {.465964, .534036, .469407, .530593, .511971, .488029, .491425, .508575, .559405,
                  .440595, .486936, .513064});
  const Routed biased(kLogits, 8, 2, {.scores = RouterScores::sigmoid, .scale = 2.5}, kBias);
  EXPECT_EQ(biased.experts(), (Experts{0, 3, 1, 4, 1, 5, 1, 6, 0, 6, 1, 6}));
  expect_weights(biased, {1.164910, 1.335090, 1.006173, 1.493827, 1.279928, 1.220072, 1.121141,
                          1.378859, 1.431561, 1.068439, 1.217341, 1.282659});
}

// By the formula, in Python: Megatron-Core 0.12.1 has no roots.
TEST(Route, GoldenOfRootsOfSoftplus) {
  expect_weights(Routed(kLogits, 8, 2, {.scores = RouterScores::sqrt_softplus}),
                 {.453386, .546614, .448199, .551801, .520708, .479292, .492326, .507674, .597160,
                  .402840, .478671, .521329});
  const Routed biased(kLogits, 8, 2, {.scores = RouterScores::sqrt_softplus, .scale = 2.5}, kBias);
  EXPECT_EQ(biased.experts(), (Experts{0, 3, 1, 4, 1, 5, 1, 6, 0, 6, 1, 6}));
  expect_weights(biased, {1.133465, 1.366535, .951612, 1.548388, 1.301771, 1.198229, 1.146493,
                          1.353507, 1.526193, .973807, 1.196678, 1.303322});
}

// Whose score is about exp(z / 2), and whose slope, 1 / 2, is no quotient of what is 0.
TEST(Route, RootsOfSmallLogits) {
  Routed routed({-800, -802, -900, -900}, 4, 1, {.scores = RouterScores::sqrt_softplus});
  EXPECT_EQ(routed.experts(), (Experts{0}));
  for (const double one : routed.gradient()) EXPECT_TRUE(std::isfinite(one));
  Routed small({-40.5, -41, -60, -70}, 4, 2, {.scores = RouterScores::sqrt_softplus});
  const double first = 1 / (1 + std::exp(-0.25)), slope = first * (1 - first) / 2;
  EXPECT_NEAR(small.weights()[0], first, 1e-9);
  EXPECT_NEAR(small.gradient()[0], slope * (std::cos(0.) - std::cos(1.)), 1e-9);
}

TEST(Route, GoldenOfGroups) {
  const Routed routed(kLogits, 8, 2, {.groups = 4, .kept_groups = 1});
  EXPECT_EQ(routed.experts(), (Experts{2, 3, 4, 5, 4, 5, 6, 7, 2, 3, 6, 7}));
  expect_weights(routed, {.154465, .845535, .924142, .075858, .231475, .768525, .475021, .524979,
                          .475021, .524979, .668188, .331812});
  const Routed biased(kLogits, 8, 2,
                      {.scores = RouterScores::sigmoid, .groups = 4, .kept_groups = 2}, kBias);
  EXPECT_EQ(biased.experts(), (Experts{0, 3, 1, 4, 1, 5, 1, 6, 0, 6, 1, 6}));
  EXPECT_NEAR(biased.weights()[0], .465964, 1e-6);
}

// Rows lie by experts, those of one by tokens.
TEST(Route, GoldenOfPlaces) {
  const Routed routed({1.2, -.4, .3, 2,   2.5, .5, 1.5, -.5, 2,   2.2, .4,  .4,
                       1,   .1,  .2, 1.3, 3,   -3, 1,   1.1, 1.7, .7,  -.6, .8},
                      4, 2);
  EXPECT_EQ(routed.ends(), (Experts{6, 7, 8, 12}));
  EXPECT_EQ(routed.experts(), (Experts{0, 3, 0, 2, 0, 1, 0, 3, 0, 3, 0, 3}));
  EXPECT_EQ(routed.places(), (Experts{0, 8, 1, 7, 2, 6, 3, 9, 4, 10, 5, 11}));
}

TEST(Route, OfEqualLogitsTheFirstIsChosen) {
  const Routed routed({1, 1, 1, 1}, 4, 2);
  EXPECT_EQ(routed.experts(), (Experts{0, 1}));
  EXPECT_EQ(routed.weights(), (std::vector<double>{.5, .5}));
  EXPECT_EQ(routed.ends(), (Experts{1, 2, 2, 2}));
}

// Experts of largest key, and others.
TEST(Route, ExpertsThatAreGivenAreWeighedAlike) {
  for (const RouterRules& rules : {RouterRules{}, RouterRules{.scores = RouterScores::sigmoid}}) {
    const Routed routed(kLogits, 8, 2, rules);
    const HostTensor logits(DType::f64, {6, 8}), expert(DType::i32, {6, 2}),
        weight(DType::f64, {6, 2});
    fill_with(logits, [](std::int64_t i) { return kLogits[static_cast<std::size_t>(i)]; });
    Experts given = routed.experts();
    given[2] = 0;
    given[3] = 7;
    std::ranges::copy(given, expert.view().as<std::int32_t>());
    RouterRules as_given = rules;
    as_given.given = true;
    Stream stream(Device::cpu);
    choose_experts(expert, weight, logits, {}, as_given, stream);
    EXPECT_EQ(Routed::values<std::int32_t>(expert), given);
    std::vector<double> expected = routed.weights();
    const double a = kLogits[8], b = kLogits[15];
    const auto score = [&](double z) {
      return rules.scores == RouterScores::sigmoid ? 1 / (1 + std::exp(-z)) : std::exp(z);
    };
    expected[2] = score(a) / (score(a) + score(b));
    expected[3] = score(b) / (score(a) + score(b));
    expect_weights(Routed::values<double>(weight), expected);
  }
}

void count_up(const HostTensor& tensor) {
  const auto values = tensor.span<std::int32_t>();
  std::iota(values.begin(), values.end(), 0);
}

// The tokens of two sequences but the first two, of which a layer's two slots of three are asked.
TEST(Route, TokensTakeWhatIsGiven) {
  const HostTensor expert(DType::i32, {4, 2}), given(DType::i32, {2, 3, 3});
  count_up(expert);
  count_up(given);
  for (std::int32_t& one : given.span<std::int32_t>()) one = one % 4 == 0 ? -1 : 100 + one;
  Stream stream(Device::cpu);
  take_experts(expert, given, 1, 2, stream);
  EXPECT_EQ(Routed::values<std::int32_t>(expert), (Experts{105, 1, 2, 115, 113, 5, 114, 117}));
}

// Two sequences of two tokens each, in slots of two tokens.
TEST(Route, ACacheKeepsWhatTokensTake) {
  const HostTensor cache(DType::i32, {4, 2, 1, 2}), expert(DType::i32, {4, 2}),
      positions(DType::i32, {4}), slots(DType::i32, {2, 2});
  std::ranges::fill(cache.span<std::int32_t>(), -1);
  count_up(expert);
  std::ranges::copy(Experts{1, 2, 0, 1}, positions.view().as<std::int32_t>());
  std::ranges::copy(Experts{3, 0, 2, 1}, slots.view().as<std::int32_t>());
  Stream stream(Device::cpu);
  keep_experts(cache, expert, positions, slots, stream);
  EXPECT_EQ(Routed::values<std::int32_t>(cache),
            (Experts{2, 3, -1, -1, -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, 0, 1}));
}

// Beside differences of the weights, whose choice a small step does not change.
TEST(Route, WeightsOfARowWithANumberThatIsNoneAreNone) {
  std::vector<double> logits = kLogits;
  logits[3] = std::numeric_limits<double>::quiet_NaN();
  for (const RouterScores scores : {RouterScores::softmax_of_chosen, RouterScores::softmax_of_all,
                                    RouterScores::sigmoid, RouterScores::sqrt_softplus}) {
    const Routed routed(logits, 8, 2, {.scores = scores});
    for (const std::int32_t expert : routed.experts()) EXPECT_TRUE(0 <= expert && expert < 8);
    EXPECT_TRUE(std::isnan(routed.weights()[0]) && std::isnan(routed.weights()[1]));
    EXPECT_FALSE(std::isnan(routed.weights()[2]));
  }
}

TEST(Route, GradientsOfWeights) {
  constexpr double kStep = 1e-6;
  for (const RouterRules& rules :
       {RouterRules{}, RouterRules{.scores = RouterScores::softmax_of_all, .scale = 1.5},
        RouterRules{.scores = RouterScores::sigmoid, .scale = 2.5},
        RouterRules{.scores = RouterScores::sqrt_softplus, .scale = 2.5},
        RouterRules{.groups = 4, .kept_groups = 1, .scale = 2}})
    for (const std::int64_t chosen : {1, 2, 3}) {
      if (rules.groups > 1 && chosen > rules.kept_groups * 8 / rules.groups) continue;
      const auto sum = [&](const std::vector<double>& logits) {
        const std::vector<double> weights = Routed(logits, 8, chosen, rules).weights();
        double total = 0;
        for (std::size_t i = 0; i < weights.size(); ++i)
          total += std::cos(static_cast<double>(i)) * weights[i];
        return total;
      };
      const std::vector<double> gradient = Routed(kLogits, 8, chosen, rules).gradient();
      for (std::size_t i = 0; i < kLogits.size(); ++i) {
        std::vector<double> more = kLogits, less = kLogits;
        more[i] += kStep;
        less[i] -= kStep;
        EXPECT_NEAR(gradient[i], (sum(more) - sum(less)) / (2 * kStep), 1e-8)
            << i << " of " << chosen;
      }
    }
}

// Twelve tokens of four experts, beside the definition in Python; with biases that are quantiles as
// many tokens go to each.
TEST(Route, QuantilesAreBiasesOfEvenChoices) {
  constexpr std::int64_t kTokens = 12, kExperts = 4, kChosen = 2;
  const HostTensor logits(DType::f64, {kTokens, kExperts}), beta(DType::f64, {kExperts}),
      sums(DType::f64, {kExperts}), keys(DType::f64, {kTokens, kExperts});
  fill_with(logits, [](std::int64_t i) { return kLogits[static_cast<std::size_t>(i)]; });
  const std::vector<double> before = {.1, -.2, .3, -.2}, quantiles = {.1, .2, .3, .3};
  fill_with(beta, [&](std::int64_t i) { return before[static_cast<std::size_t>(i)]; });
  fill_with(sums, [](std::int64_t) { return 1.0; });
  Stream stream(Device::cpu);
  add_quantiles(sums, logits, beta, kChosen, 0.5, stream);
  for (std::size_t e = 0; e < quantiles.size(); ++e)
    EXPECT_NEAR(sums.span<double>()[e], 1 + 0.5 * quantiles[e], 1e-12);
  const std::vector<double> even = {-.05, -.05, .05, .05};
  fill_with(beta, [&](std::int64_t i) { return even[static_cast<std::size_t>(i)] + 1e-9 * i; });
  quantile_keys(keys, logits, beta, stream);
  EXPECT_NEAR(keys.span<double>()[5], .9 + .05, 1e-8);
  const HostTensor expert(DType::i32, {kTokens, kChosen}), weight(DType::f64, {kTokens, kChosen});
  choose_experts(expert, weight, logits, keys, {.keys_given = true}, stream);
  std::vector<int> counts(kExperts);
  for (const std::int32_t e : expert.span<std::int32_t>()) ++counts[static_cast<std::size_t>(e)];
  for (const int count : counts) EXPECT_NEAR(count, kTokens * kChosen / kExperts, 1);
}

// Experts with room for three of six tokens, two of which each goes to: families.md's, of
// Megatron-Core, and the first ones, too.
TEST(Route, ExpertsKeepSomeOfTheirTokens) {
  const std::vector<double> logits = {1.2, -.4, .3, 2,   2.5, .5, 1.5, -.5, 2,   2.2, .4,  .4,
                                      1,   .1,  .2, 1.3, 3,   -3, 1,   1.1, 1.7, .7,  -.6, .8};
  const Routed routed(logits, 4, 2);
  const auto kept = [&](bool by_weight, std::int64_t capacity) {
    const Experts chosen = routed.experts();
    const std::vector<double> weights = routed.weights();
    HostTensor expert(DType::i32, {6, 2}), weight(DType::f64, {6, 2}), left(DType::i32, {6, 2});
    std::ranges::copy(chosen, expert.view().as<std::int32_t>());
    std::ranges::copy(weights, weight.view().as<double>());
    Stream stream(Device::cpu);
    keep_tokens(left.view(), expert.view(), by_weight ? ConstTensor(weight.view()) : ConstTensor(),
                4, capacity, stream);
    return Routed::values<std::int32_t>(left);
  };
  EXPECT_EQ(kept(true, 3), (Experts{-1, 3, 0, 2, -1, 1, -1, 3, 0, -1, 0, 3}));
  EXPECT_EQ(kept(false, 3), (Experts{0, 3, 0, 2, 0, 1, -1, 3, -1, 3, -1, -1}));
  EXPECT_EQ(kept(true, 6), routed.experts());
  EXPECT_EQ(kept(false, 0), Experts(12, -1));
  HostTensor sum(DType::f64, {1}), some(DType::i32, {6, 2});
  fill_with(sum, [](std::int64_t) { return 2.0; });
  std::ranges::copy(kept(false, 3), some.view().as<std::int32_t>());
  Stream stream(Device::cpu);
  add_dropped(sum.view(), some.view(), stream);
  EXPECT_EQ(sum.view().as<double>()[0], 2 + 4);
}

// --- Products of routers ------------------------------------------------------------------------

// A router's logits and gradients, of numbers that f32 holds.
struct Routing {
  static constexpr std::int64_t kExperts = 6, kHidden = 48, kRows = 40;
  HostTensor logits, dx, d_weight, d_bias;

  Routing(RouterType type, DType dtype, bool deferring, bool accumulate)
      : logits(dtype, {kRows, kExperts}),
        dx(dtype, {kRows, kHidden}),
        d_weight(dtype, {kExperts, kHidden}),
        d_bias(dtype, {kExperts}) {
    Workbench bench({.dtype = dtype, .sequences = 4, .seq_length = 10, .deferring = deferring});
    ParamTable table;
    const Param &weight = table.add({.place = {.module = "weight"}, .shape = {kExperts, kHidden}}),
                &bias = table.add({.place = {.module = "bias"}, .shape = {kExperts}});
    table.allocate(Device::cpu, dtype, true);
    const HostTensor x(dtype, {kRows, kHidden}), d_logits(dtype, {kRows, kExperts});
    unsigned seed = 0;
    for (const Tensor& one : {weight.value, bias.value, x.view(), d_logits.view(), dx.view()}) {
      const HostTensor drawn = random_tensor(DType::f32, one.shape(), ++seed);
      fill_with(one, [&](std::int64_t i) { return element(drawn, i) * (i % 5 == 0 ? 1024 : 1); });
    }
    Step s = bench.step();
    const RouterProduct router(weight, &bias, type);
    EXPECT_EQ(router.dtype(s), dtype);
    router.forward(s, logits.view(), x.view());
    router.backward(s, dx.view(), d_logits.view(), x.view(), accumulate);
    bench.run_weight_grads();
    d_weight = clone(weight.grad);
    d_bias = clone(bias.grad);
  }
};

// Of sums in f32 some are not: they cancel.
TEST(RouterProduct, OfDoublesIsOfDoublesRoundedOnce) {
  for (const bool accumulate : {false, true})
    for (const bool deferring : {false, true}) {
      const Routing exact(RouterType::own, DType::f64, false, accumulate),
          wide(RouterType::f64, DType::f32, deferring, accumulate),
          narrow(RouterType::own, DType::f32, false, accumulate);
      const auto farthest = [](const HostTensor& got, const HostTensor& expected) {
        double most = 0;
        for (std::int64_t i = 0; i < got.view().numel(); ++i)
          most = std::max(most, std::abs(element(got, i) / element(expected, i) - 1));
        return most;
      };
      for (const auto part : {&Routing::logits, &Routing::dx, &Routing::d_weight}) {
        EXPECT_LT(farthest(wide.*part, exact.*part), 0x1.001p-24);
        EXPECT_GT(farthest(narrow.*part, exact.*part), 0x1p-22);
      }
    }
}

TEST(RouterProduct, HasTheTypeOfAllElseWhereThatIsNoNarrower) {
  const auto expect_same = [](const Routing& a, const Routing& b) {
    for (const auto part : {&Routing::logits, &Routing::dx, &Routing::d_weight, &Routing::d_bias})
      EXPECT_SAME_BITS((a.*part).view(), b.*part);
  };
  const Routing single(RouterType::own, DType::f32, false, true),
      precise(RouterType::own, DType::f64, false, true);
  expect_same(Routing(RouterType::f32, DType::f32, false, true), single);
  expect_same(Routing(RouterType::f32, DType::f64, false, true), precise);
  expect_same(Routing(RouterType::f64, DType::f64, false, true), precise);
}

}  // namespace
}  // namespace mt
