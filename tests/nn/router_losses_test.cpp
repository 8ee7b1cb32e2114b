// Losses of routers, beside numbers that Megatron-Core 0.12.1 gave for six tokens, eight experts
// and two of them chosen, and their gradients beside differences.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/experts.h"
#include "ops/ops.h"
#include "ops/router_losses.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kTokens = 6, kExperts = 8, kChosen = 2;
const Numbers kLogits = {1.2, -.4, .3, 2,   -1.1, .9,  .1,  -.2, .5, .5,   1.5, -.5,
                         2.5, 0,   -2, 1,   -1,   2.2, .4,  .4,  .6, 1.8,  -.3, .2,
                         0,   .1,  .2, .3,  .4,   .5,  .6,  .7,  3,  -3,   1,   1.1,
                         0,   .2,  .9, -.8, .7,   1.7, -.6, .8,  .3, -1.5, 2.1, 1.4};

class Losses {
 public:
  Losses(const Numbers& logits, const RouterGroups& groups)
      : groups_(groups),
        logits_(DType::f64, {kTokens, kExperts}),
        expert_(DType::i32, {kTokens, kChosen}),
        counts_(DType::f64, {groups.groups, kExperts}) {
    fill_with(logits_, [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; });
    const HostTensor weight(DType::f64, {kTokens, kChosen});
    const RouterRules rules{.scores = groups.scores()};
    choose_experts(expert_.view(), weight.view(), logits_.view(), {}, rules, stream_);
    count_experts(counts_.view(), expert_.view(), groups_, stream_);
  }
  // The sums for these factors: those of both losses, and then how often each expert was chosen.
  Numbers sums(const RouterFactors& factors) {
    const HostTensor balance(DType::f64, {kTokens}), square(DType::f64, {kTokens}),
        sums(DType::f64, {2 + kExperts});
    fill_with(sums, [](std::int64_t) { return 0.0; });
    router_losses(balance.view(), square.view(), logits_.view(), counts_.view(), groups_, stream_);
    add_router_sums(sums.view(), balance.view(), square.view(), counts_.view(), factors, stream_);
    return values(sums);
  }
  Numbers gradient(const RouterFactors& factors, double scale = 1) {
    const HostTensor d_logits(DType::f64, {kTokens, kExperts}), by(DType::f64, {1});
    fill_with(d_logits, [](std::int64_t) { return 0.0; });
    fill_with(by, [&](std::int64_t) { return scale; });
    router_losses_backward(d_logits.view(), logits_.view(), counts_.view(), factors, by.view(), {},
                           groups_, stream_);
    return values(d_logits);
  }

 private:
  static Numbers values(const HostTensor& tensor) {
    const ConstTensor view = tensor.view();
    return {view.as<double>(), view.as<double>() + view.numel()};
  }
  RouterGroups groups_;
  HostTensor logits_, expert_, counts_;
  Stream stream_{Device::cpu};
};

// E / (k N^2), for so many groups of N tokens.
RouterFactors factors(double balance, double z, std::int64_t groups = 1) {
  const double tokens = static_cast<double>(kTokens) / static_cast<double>(groups);
  return {
      .by_balance = balance * kExperts / (kChosen * tokens * tokens * static_cast<double>(groups)),
      .by_square = z / kTokens};
}

void expect_first_row(const Numbers& gradient, const Numbers& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(gradient[i], expected[i], 3e-9) << i;
}

TEST(RouterLosses, GoldenOfAllTokens) {
  Losses losses(kLogits, {.group_rows = kTokens});
  const Numbers sums = losses.sums(factors(.01, 1e-3));
  EXPECT_NEAR(sums[0], .01047404, 2e-8);
  EXPECT_NEAR(sums[1], .009322220, 2e-8);
  EXPECT_EQ(Numbers(sums.begin() + 2, sums.end()), (Numbers{2, 2, 1, 2, 1, 1, 2, 1}));
  expect_first_row(losses.gradient(factors(.01, 0)),
                   {6.013228e-5, 1.214050e-5, -6.152398e-5, 1.338268e-4, -1.517163e-5, -1.121040e-4,
                    2.001629e-5, -3.731618e-5});
  expect_first_row(losses.gradient(factors(0, .25e-3), 4),
                   {1.813726e-4, 3.661849e-5, 7.374058e-5, 4.036521e-4, 1.818420e-5, 1.343641e-4,
                    6.037368e-5, 4.472593e-5});
}

// The golden's rows are position * 2 + sample, ours sample * 3 + position.
TEST(RouterLosses, GoldenOfSequences) {
  Numbers by_samples;
  for (const int row : {0, 2, 4, 1, 3, 5})
    by_samples.insert(by_samples.end(), kLogits.begin() + row * kExperts,
                      kLogits.begin() + (row + 1) * kExperts);
  Losses losses(by_samples, {.groups = 2, .group_rows = 3});
  EXPECT_NEAR(losses.sums(factors(.01, 0, 2))[0], .01471997, 2e-8);
  expect_first_row(losses.gradient(factors(.01, 0, 2)),
                   {2.507362e-4, -3.476204e-5, -2.419460e-4, 5.580236e-4, -5.966317e-5,
                    -1.275523e-4, -1.980887e-4, -1.467477e-4});
}

TEST(RouterLosses, GoldenOfSigmoids) {
  Losses losses(kLogits, {.group_rows = kTokens, .sigmoid = true});
  EXPECT_NEAR(losses.sums(factors(.01, 0))[0], .01002743, 2e-8);
}

// By the formula, in Python.
TEST(RouterLosses, GoldenOfRootsOfSoftplus) {
  Losses losses(kLogits, {.group_rows = kTokens, .sqrt_softplus = true});
  EXPECT_NEAR(losses.sums(factors(.01, 0))[0], .01005077, 2e-8);
}

// Of a step's micro-batches so far.
TEST(RouterLosses, MeanCounts) {
  Stream stream(Device::cpu);
  const HostTensor counts(DType::f64, {1, 3}), so_far(DType::f64, {1, 3});
  fill_with(so_far, [](std::int64_t) { return 0.0; });
  const auto mean = [&](const Numbers& own) {
    fill_with(counts, [&](std::int64_t i) { return own[static_cast<std::size_t>(i)]; });
    mean_counts(counts.view(), so_far.view(), stream);
    const ConstTensor view = counts.view();
    return Numbers(view.as<double>(), view.as<double>() + view.numel());
  };
  EXPECT_EQ(mean({2, 4, 0}), (Numbers{2, 4, 0}));
  EXPECT_EQ(mean({0, 1, 5}), (Numbers{1, 2.5, 2.5}));
  EXPECT_EQ(mean({4, 1, 1}), (Numbers{2, 2, 2}));
}

// The counts stay as they are, as in the gradient.
TEST(RouterLosses, GradientsAreDifferences) {
  constexpr double kStep = 1e-6;
  for (const RouterScores scores :
       {RouterScores::softmax_of_all, RouterScores::sigmoid, RouterScores::sqrt_softplus})
    for (const std::int64_t groups : {1, 2}) {
      const RouterGroups of{.groups = groups,
                            .group_rows = kTokens / groups,
                            .sigmoid = scores == RouterScores::sigmoid,
                            .sqrt_softplus = scores == RouterScores::sqrt_softplus};
      const RouterFactors by = factors(.3, .2, groups);
      const Numbers gradient = Losses(kLogits, of).gradient(by);
      for (std::size_t i = 0; i < kLogits.size(); ++i) {
        Numbers more = kLogits, less = kLogits;
        more[i] += kStep;
        less[i] -= kStep;
        const Numbers a = Losses(more, of).sums(by), b = Losses(less, of).sums(by);
        EXPECT_NEAR(gradient[i], (a[0] + a[1] - b[0] - b[1]) / (2 * kStep), 1e-8) << i;
      }
    }
}

}  // namespace
}  // namespace mt
