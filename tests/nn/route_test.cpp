// Which experts tokens go to, beside numbers that Megatron-Core 0.12.1 and PyTorch gave.
#include <gtest/gtest.h>

#include <vector>

#include "ops/ops.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class Routed {
 public:
  Routed(const std::vector<double>& logits, std::int64_t experts, std::int64_t chosen)
      : tokens_(std::ssize(logits) / experts),
        logits_(DType::f64, {tokens_, experts}),
        expert_(DType::i32, {tokens_, chosen}),
        place_(DType::i32, {tokens_, chosen}),
        ends_(DType::i32, {experts}),
        weight_(DType::f64, {tokens_, chosen}) {
    fill_with(logits_, [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; });
    route_forward(route(), logits_.view(), stream_);
  }
  Route route() const { return {expert_.view(), place_.view(), ends_.view(), weight_.view()}; }
  template <class T>
  static std::vector<T> values(const HostTensor& tensor) {
    const ConstTensor view = tensor.view();
    return {view.as<T>(), view.as<T>() + view.numel()};
  }
  std::vector<std::int32_t> experts() const { return values<std::int32_t>(expert_); }
  std::vector<std::int32_t> places() const { return values<std::int32_t>(place_); }
  std::vector<std::int32_t> ends() const { return values<std::int32_t>(ends_); }
  std::vector<double> weights() const { return values<double>(weight_); }

 private:
  std::int64_t tokens_;
  HostTensor logits_, expert_, place_, ends_, weight_;
  Stream stream_{Device::cpu};
};

TEST(Route, GoldenOfSoftmaxBehindTheChoice) {
  const Routed routed({1.2, -.4, .3, 2,  -1.1, .9,  .1, -.2, .5,  .5, 1.5, -.5,  2.5, 0,  -2, 1, -1,
                       2.2, .4,  .4, .6, 1.8,  -.3, .2, 0,   .1,  .2, .3,  .4,   .5,  .6, .7, 3, -3,
                       1,   1.1, 0,  .2, .9,   -.8, .7, 1.7, -.6, .8, .3,  -1.5, 2.1, 1.4},
                      8, 2);
  EXPECT_EQ(routed.experts(), (std::vector<std::int32_t>{0, 3, 2, 4, 1, 5, 6, 7, 0, 3, 1, 6}));
  EXPECT_EQ(routed.ends(), (std::vector<std::int32_t>{2, 4, 5, 7, 8, 9, 11, 12}));
  const double expected[] = {.310026, .689974, .268941, .731059, .598688, .401312,
                             .475021, .524979, .869892, .130108, .401312, .598688};
  for (std::size_t i = 0; i < std::size(expected); ++i)
    EXPECT_NEAR(routed.weights()[i], expected[i], 1e-6) << i;
}

// Rows lie by experts, those of one by tokens.
TEST(Route, GoldenOfPlaces) {
  const Routed routed({1.2, -.4, .3, 2,   2.5, .5, 1.5, -.5, 2,   2.2, .4,  .4,
                       1,   .1,  .2, 1.3, 3,   -3, 1,   1.1, 1.7, .7,  -.6, .8},
                      4, 2);
  EXPECT_EQ(routed.ends(), (std::vector<std::int32_t>{6, 7, 8, 12}));
  EXPECT_EQ(routed.experts(), (std::vector<std::int32_t>{0, 3, 0, 2, 0, 1, 0, 3, 0, 3, 0, 3}));
  EXPECT_EQ(routed.places(), (std::vector<std::int32_t>{0, 8, 1, 7, 2, 6, 3, 9, 4, 10, 5, 11}));
}

TEST(Route, OfEqualLogitsTheFirstIsChosen) {
  const Routed routed({1, 1, 1, 1}, 4, 2);
  EXPECT_EQ(routed.experts(), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(routed.weights(), (std::vector<double>{.5, .5}));
  EXPECT_EQ(routed.ends(), (std::vector<std::int32_t>{1, 2, 2, 2}));
}

}  // namespace
}  // namespace mt
