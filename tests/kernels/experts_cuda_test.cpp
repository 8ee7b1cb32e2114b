// The choice of experts and the way to them on the GPU against the CPU's in double.
#include "kernels/experts.h"

#include <cmath>
#include <tuple>
#include <type_traits>

#include "kernels/expert_capacity.h"
#include "kernels/given_experts.h"
#include "kernels/quantile_balance.h"
#include "kernels/router_losses.h"
#include "kernels/wide_product.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

using Indices = std::vector<std::int32_t>;

template <class T>
class ExpertsCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(ExpertsCuda, check::ElementTypes);

std::vector<RouterRules> cases() {
  std::vector<RouterRules> all;
  for (const std::int64_t tokens : {1, 31, 333})
    for (const RouterScores scores : {RouterScores::softmax_of_chosen, RouterScores::softmax_of_all,
                                      RouterScores::sigmoid, RouterScores::sqrt_softplus}) {
      all.push_back({tokens, 8, 2, scores, 1, 1, false, 1.5});
      all.push_back({tokens, 5, 1, scores});
      all.push_back({tokens, 160, 8, scores, 8, 4, false, 2});
      all.push_back({tokens, 160, 8, scores, 8, 3, true, 2});
    }
  return all;
}

TYPED_TEST(ExpertsCuda, ChoosesAsTheCpu) {
  using T = TypeParam;
  for (const RouterRules& rules : cases()) {
    SCOPED_TRACE(testing::Message() << rules.tokens << " of " << rules.experts << " by "
                                    << static_cast<int>(rules.scores));
    const std::int64_t slots = rules.tokens * rules.chosen;
    const Input<T> logits(rules.tokens * rules.experts, 1), d_weight_values(slots, 2);
    const Numbers<float> bias(check::random<double>(rules.experts, 3, -0.1, 0.1), 0), weight(slots),
        d_weight(d_weight_values.host, 0);
    const std::vector<double> bias_host = bias.values();
    const DeviceArray<std::int32_t> expert(slots);
    cuda::choose(expert.data(), weight.data(), logits.data(), bias.data(), rules, nullptr);
    Indices chosen(static_cast<std::size_t>(slots));
    std::vector<double> expected(static_cast<std::size_t>(slots));
    cpu::choose(chosen.data(), expected.data(), logits.host.data(), bias_host.data(), rules);
    EXPECT_TRUE(near(weight, expected, 1e-5));
    EXPECT_EQ(expert.values(), chosen);
    RouterRules given = rules;
    given.given = true;
    const Numbers<float> again(slots);
    cuda::choose(expert.data(), again.data(), logits.data(), nullptr, given, nullptr);
    EXPECT_TRUE(check::same_bits(again.bits(), weight.bits()));
    EXPECT_EQ(expert.values(), chosen);
    const Numbers<T> d_logits(rules.tokens * rules.experts);
    cuda::choose_backward(d_logits.data(), d_weight.data(), logits.data(), expert.data(), rules,
                          nullptr);
    std::vector<double> d_expected(static_cast<std::size_t>(rules.tokens * rules.experts));
    cpu::choose_backward(d_expected.data(), d_weight_values.host.data(), logits.host.data(),
                         chosen.data(), rules);
    EXPECT_TRUE(near(d_logits, d_expected, check::kRounding<T> + 1e-5));
  }
}

// Rows of two groups, the first of which begins before them.
TYPED_TEST(ExpertsCuda, LossesAreTheCpus) {
  using T = TypeParam;
  for (const RouterScores scores :
       {RouterScores::softmax_of_all, RouterScores::sigmoid, RouterScores::sqrt_softplus}) {
    SCOPED_TRACE(static_cast<int>(scores));
    const RouterGroups s{.rows = 77,
                         .experts = 40,
                         .chosen = 2,
                         .groups = 2,
                         .group_rows = 50,
                         .first = 11,
                         .sigmoid = scores == RouterScores::sigmoid,
                         .sqrt_softplus = scores == RouterScores::sqrt_softplus};
    const RouterFactors by{.by_balance = 0.3, .by_square = 0.02};
    const Input<T> logits(s.rows * s.experts, 1), before(s.rows * s.experts, 2);
    const Numbers<float> counts(check::random<double>(s.groups * s.experts, 3, 0, 9), 0);
    const std::vector<double> host_counts = counts.values();
    const Numbers<double> balance(s.rows), square(s.rows);
    cuda::router_losses(balance.data(), square.data(), logits.data(), counts.data(), s, nullptr);
    std::vector<double> balances(static_cast<std::size_t>(s.rows)), squares(balances);
    cpu::router_losses(balances.data(), squares.data(), logits.host.data(), host_counts.data(), s);
    EXPECT_TRUE(near(balance, balances, 1e-5));
    EXPECT_TRUE(near(square, squares, 1e-5));
    cuda::router_losses_backward(before.device.data(), logits.data(), counts.data(), by, nullptr,
                                 nullptr, s, nullptr);
    std::vector<double> gradient = before.host;
    cpu::router_losses_backward(gradient.data(), logits.host.data(), host_counts.data(), by,
                                nullptr, nullptr, s);
    EXPECT_TRUE(near(before.device, gradient, check::kRounding<T> + 1e-5));
  }
}

// Of all experts, and of some, beside which others have no place.
TYPED_TEST(ExpertsCuda, RowsGoThereAndBack) {
  using T = TypeParam;
  for (const PlaceShape& shape : {PlaceShape{1, 1, 0, 1}, PlaceShape{700, 2, 0, 8},
                                  PlaceShape{700, 2, 4, 4}, PlaceShape{33, 8, 3, 1}})
    for (const std::int64_t cols : {1, 33, 1000}) {
      const std::int64_t slots = shape.tokens * shape.chosen;
      Indices chosen;
      for (std::int64_t i = 0; i < slots; ++i)
        chosen.push_back(static_cast<std::int32_t>(i * i % 7 % 8));
      const DeviceArray<std::int32_t> expert(chosen), place(slots), ends(shape.count);
      const DeviceArray<unsigned char> work(cuda::place_work(shape));
      cuda::place(place.data(), ends.data(), expert.data(), shape, work.data(), nullptr);
      Indices places(static_cast<std::size_t>(slots)), last(static_cast<std::size_t>(shape.count));
      cpu::place(places.data(), last.data(), chosen.data(), shape);
      EXPECT_EQ(place.values(), places);
      EXPECT_EQ(ends.values(), last);
      const std::int64_t rows = last.back();
      const Input<T> x(shape.tokens * cols, 1), by_experts(rows * cols, 2);
      const Numbers<T> there(rows * cols), back(shape.tokens * cols);
      cuda::spread(there.data(), x.data(), place.data(), cols, shape, nullptr);
      cuda::gather(back.data(), by_experts.data(), place.data(), cols, shape, nullptr);
      std::vector<double> there_expected(static_cast<std::size_t>(rows * cols)),
          back_expected(static_cast<std::size_t>(shape.tokens * cols)),
          dots_expected(static_cast<std::size_t>(rows));
      cpu::spread(there_expected.data(), x.host.data(), places.data(), cols, shape);
      cpu::gather(back_expected.data(), by_experts.host.data(), places.data(), cols, shape);
      EXPECT_TRUE(near(there, there_expected));
      EXPECT_TRUE(near(back, back_expected));
      const Numbers<float> dots(rows);
      cuda::row_dots(dots.data(), there.data(), by_experts.data(), rows, cols, nullptr);
      cpu::row_dots(dots_expected.data(), there_expected.data(), by_experts.host.data(), rows,
                    cols);
      EXPECT_TRUE(near(dots, dots_expected, 1e-4));
    }
}

// Many logits are equal.
TYPED_TEST(ExpertsCuda, QuantilesAreTheCpus) {
  using T = TypeParam;
  for (const auto& [tokens, experts, chosen] :
       {std::tuple(4, 4, 1), {96, 8, 2}, {1000, 40, 8}, {5120, 160, 8}})
    for (const double step : {0.0, 0.25}) {
      SCOPED_TRACE(testing::Message() << tokens << " of " << experts << " by " << step);
      const QuantileShape s{.tokens = tokens, .experts = experts, .chosen = chosen};
      std::vector<double> values = check::random<double>(tokens * experts, 1, -2, 2);
      for (double& value : values)
        if (step > 0) value = std::round(value / step) * step;
      const Numbers<T> z(values, 0);
      const std::vector<double> host = z.values();
      const Numbers<float> beta(check::random<double>(experts, 2, -0.5, 0.5), 0),
          keys(tokens * experts), work(tokens);
      const std::vector<double> host_beta = beta.values();
      std::vector<double> expected_keys(host.size()),
          expected(static_cast<std::size_t>(experts), 1);
      const Numbers<double> sums(expected, 0);
      cuda::quantile_keys(keys.data(), z.data(), beta.data(), s, nullptr);
      cpu::quantile_keys(expected_keys.data(), host.data(), host_beta.data(), s);
      EXPECT_TRUE(near(keys, expected_keys, 1e-6));
      cuda::add_quantiles(sums.data(), z.data(), beta.data(), 0.5, s, work.data(), nullptr);
      cpu::add_quantiles(expected.data(), host.data(), host_beta.data(), 0.5, s);
      EXPECT_TRUE(near(sums, expected, 1e-6));
    }
}

using GivenExpertsCuda = check::CudaTest<float>;

TEST_F(GivenExpertsCuda, AreTakenAsOnTheCpu) {
  const GivenShape s{
      .tokens = 700, .chosen = 3, .first_token = 40, .length = 185, .width = 10, .first = 6};
  Indices expert, given;
  for (std::int32_t i = 0; i < s.tokens * s.chosen; ++i) expert.push_back(i);
  for (std::int32_t i = 0; i < 4 * s.width * s.length; ++i)
    given.push_back(i % 7 == 0 ? -1 : 10000 + i);
  const DeviceArray<std::int32_t> there(expert), given_there(given);
  cuda::take_experts(there.data(), given_there.data(), s, nullptr);
  cpu::take_experts(expert.data(), given.data(), s);
  EXPECT_EQ(there.values(), expert);
}

TEST_F(GivenExpertsCuda, AreKeptAsOnTheCpu) {
  const KeptShape s{.tokens = 300, .chosen = 3, .length = 100, .capacity = 64, .runs = 2};
  Indices expert, positions;
  const Indices slots{5, 0, 3, 1, 2, 4};
  for (std::int32_t i = 0; i < s.tokens * s.chosen; ++i) expert.push_back(i);
  for (std::int32_t t = 0; t < s.tokens; ++t) positions.push_back(t % 100 + t / 100);
  Indices cache(static_cast<std::size_t>(6 * s.capacity * s.chosen), -1);
  const DeviceArray<std::int32_t> there(cache), expert_there(expert), positions_there(positions),
      slots_there(slots);
  cuda::keep_experts(there.data(), expert_there.data(),
                     {positions_there.data(), slots_there.data()}, s, nullptr);
  cpu::keep_experts(cache.data(), expert.data(), {positions.data(), slots.data()}, s);
  EXPECT_EQ(there.values(), cache);
}

using ExpertCapacityCuda = check::CudaTest<float>;

TEST_F(ExpertCapacityCuda, KeepsAsTheCpu) {
  for (const std::int64_t tokens : {1, 31, 1500})
    for (const std::int64_t capacity : {0, 1, 7, 300, 4000})
      for (const bool by_weight : {true, false}) {
        const CapacityShape s{.tokens = tokens, .chosen = 2, .experts = 5, .capacity = capacity};
        const std::int64_t slots = tokens * s.chosen;
        Indices expert;
        std::vector<float> weight;
        for (std::int64_t i = 0; i < slots; ++i) {
          expert.push_back(static_cast<std::int32_t>(i * i % 5));
          weight.push_back(static_cast<float>(i * 7 % 13) / 13);  // many are equal
        }
        Indices kept(expert.size());
        const float* const none = nullptr;
        cpu::keep_tokens(kept.data(), expert.data(), by_weight ? weight.data() : none, s);
        const DeviceArray<std::int32_t> there(expert);
        const DeviceArray<float> weights(weight);
        DeviceArray<std::int32_t> result(Indices(expert.size(), 77));
        cuda::keep_tokens(result.data(), there.data(), by_weight ? weights.data() : none, s,
                          nullptr);
        EXPECT_EQ(result.values(), kept) << tokens << ' ' << capacity << ' ' << by_weight;
        DeviceArray<double> sum(std::vector<double>{3});
        cuda::add_dropped(sum.data(), result.data(), slots, nullptr);
        double expected = 3;
        cpu::add_dropped(&expected, kept.data(), slots);
        EXPECT_EQ(sum.values()[0], expected) << tokens << ' ' << capacity << ' ' << by_weight;
      }
}

// What products of routers read, and what they give, of types A and B, and C.
template <class A, class B, class C>
void check_wide_product(WideProduct<A, B, C> p) {
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << ", transposed "
                                  << p.transpose_a << p.transpose_b);
  const Input<A> a(p.m * p.k, 1);
  const Input<B> b(p.k * p.n, 2), bias(p.n, 3);
  const Input<C> old(p.m * p.n, 4);
  p.a = a.data();
  p.b = b.data();
  if (!p.accumulate) p.bias = bias.data();
  std::vector<double> expected(static_cast<std::size_t>(p.m * p.n));
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const auto at = [](std::int64_t of) { return static_cast<std::size_t>(of); };
      double sum = p.accumulate ? old.host[at(i * p.n + j)] : bias.host[at(j)];
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += a.host[at(p.transpose_a ? l * p.m + i : i * p.k + l)] *
               b.host[at(p.transpose_b ? j * p.k + l : l * p.n + j)];
      expected[at(i * p.n + j)] = sum;
    }
  const Numbers<C> c(old.host, 0);
  p.c = c.data();
  cuda::wide_product(p, nullptr);
  EXPECT_TRUE(near(c, expected, std::is_same_v<C, float> ? 0x1.001p-24 : check::kRounding<C>));
  if (p.transpose_a) return;
  const Numbers<C> row(std::vector<double>(old.host.begin(), old.host.begin() + p.n), 0);
  p.c = row.data();
  p.m = 1;
  cuda::wide_product(p, nullptr);
  std::vector<C> first = c.bits();
  first.resize(static_cast<std::size_t>(p.n));
  EXPECT_TRUE(check::same_bits(row.bits(), first));
}

TYPED_TEST(ExpertsCuda, WideProductsAreOfTheWiderType) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 64, 333})
    for (const std::int64_t experts : {5, 130}) {
      const std::int64_t hidden = 200;
      check_wide_product<T, T, float>({.m = rows, .n = experts, .k = hidden, .transpose_b = true});
      check_wide_product<float, T, T>({.m = rows, .n = hidden, .k = experts, .accumulate = true});
      check_wide_product<float, T, T>({.m = rows, .n = hidden, .k = experts});
      check_wide_product<float, T, float>(
          {.m = experts, .n = hidden, .k = rows, .transpose_a = true, .accumulate = true});
    }
}

}  // namespace
}  // namespace mt
