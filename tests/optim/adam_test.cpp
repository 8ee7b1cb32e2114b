// Adam over a table: the golden steps, what decays, what is scaled, what stays as it is.
#include "optim/adam.h"

#include <gtest/gtest.h>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr AdamOptions kOptions = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

class OverATable : public testing::Test {
 protected:
  OverATable() {
    table_.add({.name = "matrix", .shape = {1, 3}});
    table_.add({.name = "vector", .shape = {3}});
    table_.add({.name = "frozen", .shape = {1, 3}, .trainable = false});
    table_.add({.name = "slow", .shape = {1, 3}, .learning_rate_mult = 0.5});
  }

  Adam allocate(DType dtype) {
    table_.allocate(Device::cpu, dtype, true);
    fill_with(table_.values(), [](std::int64_t) { return 1; });
    return {table_, kOptions};
  }

  void step(Adam& adam, double gradient, double scale = 1) {
    fill_with(table_.gradients(), [&](std::int64_t) { return gradient; });
    StepRecord record;
    record.gradient_scale = scale;
    adam.begin_step(record, 1e-3, 0.1);
    adam.step(table_, &record, stream_);
  }

  double value(const char* name) { return element(table_.at(name).value, 2); }

  ParamTable table_;
  Stream stream_{Device::cpu};
};

// p = 1, learning rate 1e-3, weight decay 0.1, gradients 0.5, -0.25, 0.1.
constexpr double kGradients[] = {0.5, -0.25, 0.1};
constexpr double kGolden[] = {0.99890000002, 0.99853174058, 0.99811060233};

TEST_F(OverATable, GoldenSteps) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Adam adam = allocate(dtype);
    for (int i = 0; i < 3; ++i) {
      step(adam, kGradients[i]);
      EXPECT_NEAR(value("matrix"), kGolden[i], dtype == DType::f64 ? 1e-11 : 1e-7) << i;
    }
    EXPECT_EQ(adam.steps(), 3);
  }
}

TEST_F(OverATable, OnlyMatricesDecay) {
  Adam adam = allocate(DType::f64);
  step(adam, 0.5);
  // Without decay the first step is -lr g / (|g| + eps), whatever g is.
  EXPECT_NEAR(value("vector"), 1 - 1e-3, 1e-10);
  EXPECT_NEAR(value("matrix"), 1 - 1e-3 - 1e-3 * 0.1, 1e-10);
}

TEST_F(OverATable, LearningRatesHaveFactors) {
  Adam adam = allocate(DType::f64);
  step(adam, 0.5);
  EXPECT_NEAR(value("slow"), 1 - 0.5e-3 * 1.1, 1e-10);
}

TEST_F(OverATable, FrozenParametersStayAsTheyAre) {
  Adam adam = allocate(DType::f32);
  step(adam, 0.5);
  EXPECT_EQ(value("frozen"), 1);
  EXPECT_EQ(largest(adam.exp_avg(table_, table_.at("frozen"))), 0);
  EXPECT_EQ(largest(adam.exp_avg_sq(table_, table_.at("frozen"))), 0);
}

TEST_F(OverATable, MomentsAreThoseOfTheScaledGradient) {
  Adam adam = allocate(DType::f64);
  step(adam, 5, 0.1);
  EXPECT_NEAR(value("matrix"), kGolden[0], 1e-11);
  EXPECT_NEAR(element(adam.exp_avg(table_, table_.at("vector")), 1), 0.1 * 0.5, 1e-15);
  EXPECT_NEAR(element(adam.exp_avg_sq(table_, table_.at("vector")), 1), 0.05 * 0.25, 1e-15);
}

TEST_F(OverATable, GoesOnFromAnotherStep) {
  Adam adam = allocate(DType::f64);
  step(adam, kGradients[0]);
  step(adam, kGradients[1]);
  Adam resumed(table_, kOptions);
  resumed.set_steps(adam.steps());
  for (const Param& row : table_.rows()) {
    std::memcpy(resumed.exp_avg(table_, row).data(), adam.exp_avg(table_, row).data(),
                row.value.bytes());
    std::memcpy(resumed.exp_avg_sq(table_, row).data(), adam.exp_avg_sq(table_, row).data(),
                row.value.bytes());
  }
  step(resumed, kGradients[2]);
  EXPECT_NEAR(value("matrix"), kGolden[2], 1e-11);
}

TEST_F(OverATable, OnMetaCountsBytes) {
  table_.allocate(Device::meta, DType::f32, true);
  const Adam adam(table_, kOptions);
  Stream meta(Device::meta);
  adam.step(table_, nullptr, meta);
  EXPECT_EQ(meta.cost().bytes,
            3 * 3 * 7 * 4);  // trainable rows, elements, p m v g in and p m v out
  EXPECT_EQ(adam.bytes(), 2 * table_.values().bytes());
}

}  // namespace
}  // namespace mt
