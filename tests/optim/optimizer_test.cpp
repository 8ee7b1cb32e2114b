// The optimizer over a table: the golden steps, what decays, what is scaled, what is clipped, what
// stays as it is.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class OverATable : public testing::Test {
 protected:
  OverATable() {
    options_.adam = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    options_.clip_grad = 0;
    table_.add({.name = "matrix", .shape = {1, 3}});
    table_.add({.name = "vector", .shape = {3}});
    table_.add({.name = "frozen", .shape = {1, 3}, .trainable = false});
    table_.add({.name = "slow", .shape = {1, 3}, .learning_rate_mult = 0.5});
  }

  Optimizer make(DType dtype) {
    Optimizer optimizer(table_, Device::cpu, dtype, options_, *alone_);
    fill_with(table_.values(), [](std::int64_t) { return 1; });
    return optimizer;
  }

  StepResult step(Optimizer& optimizer, double gradient, double divisor = 1) {
    for (Param& row : table_.rows()) fill_with(row.grad, [&](std::int64_t) { return gradient; });
    return optimizer.step({.learning_rate = 1e-3, .weight_decay = 0.1, .divisor = divisor},
                          stream_);
  }

  double value(const char* name) { return element(table_.at(name).value, 2); }
  Tensor state(const Optimizer& optimizer, const char* name, std::size_t slot) {
    return optimizer.state(table_.at(name), slot);
  }

  OptimizerOptions options_;
  ParamTable table_;
  std::unique_ptr<Group> alone_ = make_single_group();
  Stream stream_{Device::cpu};
};

// p = 1, learning rate 1e-3, weight decay 0.1, gradients 0.5, -0.25, 0.1.
constexpr double kGradients[] = {0.5, -0.25, 0.1};
constexpr double kGolden[] = {0.99890000002, 0.99853174058, 0.99811060233};

TEST_F(OverATable, GoldenSteps) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Optimizer optimizer = make(dtype);
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(step(optimizer, kGradients[i]).skipped);
      EXPECT_NEAR(value("matrix"), kGolden[i], dtype == DType::f64 ? 1e-11 : 1e-7) << i;
    }
    EXPECT_EQ(optimizer.steps(), 3);
  }
}

TEST_F(OverATable, OnlyMatricesDecay) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 0.5);
  // Without decay the first step is -lr g / (|g| + eps), whatever g is.
  EXPECT_NEAR(value("vector"), 1 - 1e-3, 1e-10);
  EXPECT_NEAR(value("matrix"), 1 - 1e-3 - 1e-3 * 0.1, 1e-10);
}

TEST_F(OverATable, LearningRatesHaveFactors) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 0.5);
  EXPECT_NEAR(value("slow"), 1 - 0.5e-3 * 1.1, 1e-10);
}

TEST_F(OverATable, FrozenParametersStayAsTheyAre) {
  Optimizer optimizer = make(DType::f32);
  step(optimizer, 0.5);
  EXPECT_EQ(value("frozen"), 1);
}

TEST_F(OverATable, MomentsAreThoseOfTheAveragedGradient) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, 5, 10);
  EXPECT_NEAR(value("matrix"), kGolden[0], 1e-11);
  EXPECT_NEAR(element(state(optimizer, "vector", 0), 1), 0.1 * 0.5, 1e-15);
  EXPECT_NEAR(element(state(optimizer, "vector", 1), 1), 0.05 * 0.25, 1e-15);
}

TEST_F(OverATable, GoesOnFromAnotherStep) {
  Optimizer optimizer = make(DType::f64);
  step(optimizer, kGradients[0]);
  step(optimizer, kGradients[1]);
  const double before = value("matrix");
  const HostTensor m = clone(state(optimizer, "matrix", 0)),
                   v = clone(state(optimizer, "matrix", 1));
  Optimizer resumed = make(DType::f64);
  fill_with(table_.at("matrix").value, [&](std::int64_t) { return before; });
  resumed.set_steps(optimizer.steps());
  std::memcpy(state(resumed, "matrix", 0).data(), m.view().data(), m.view().bytes());
  std::memcpy(state(resumed, "matrix", 1).data(), v.view().data(), v.view().bytes());
  step(resumed, kGradients[2]);
  EXPECT_NEAR(value("matrix"), kGolden[2], 1e-11);
}

TEST_F(OverATable, ClipsToTheNorm) {
  options_.clip_grad = 1;
  Optimizer optimizer = make(DType::f64);
  // 9 trainable elements and 3 frozen ones, each averaged to 2.5 / sqrt(12): a norm of 2.5.
  const StepResult result = step(optimizer, 4 * 2.5 / std::sqrt(12), 4);
  EXPECT_NEAR(result.grad_norm, 2.5, 1e-14);
  EXPECT_NEAR(element(state(optimizer, "vector", 0), 0), 0.1 * 0.39999984 * 2.5 / std::sqrt(12),
              1e-9);
}

TEST_F(OverATable, CountsZeros) {
  options_.log_num_zeros_in_grad = true;
  Optimizer optimizer = make(DType::f32);
  EXPECT_EQ(step(optimizer, 0).num_zeros, 9);
  EXPECT_EQ(step(optimizer, 1).num_zeros, 0);
  options_.log_num_zeros_in_grad = false;
  Optimizer silent = make(DType::f32);
  EXPECT_EQ(step(silent, 0).num_zeros, std::nullopt);
}

TEST_F(OverATable, GradientsThatAreNotFiniteChangeNothing) {
  Optimizer optimizer = make(DType::f32);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(step(optimizer, bad).skipped);
    EXPECT_EQ(optimizer.steps(), 0);
    EXPECT_EQ(value("matrix"), 1);
    EXPECT_EQ(largest(state(optimizer, "matrix", 0)), 0);
  }
}

TEST_F(OverATable, OnMetaCountsBytes) {
  Stream meta(Device::meta);
  Optimizer optimizer(table_, Device::meta, DType::f32, options_, *alone_);
  optimizer.step({}, meta);
  // The norm reads the gradients; p m v g are read and p m v written of 3 rows of 3 elements.
  EXPECT_EQ(meta.cost().bytes, static_cast<double>(table_.gradients().bytes()) + 3 * 3 * 7 * 4);
  EXPECT_EQ(optimizer.bytes(), 3 * 2 * 64 * sizeof(float));
}

}  // namespace
}  // namespace mt
