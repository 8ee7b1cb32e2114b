// The queue of weight gradients: at once, or when told.
#include "nn/weight_grads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class Queue : public testing::Test {
 protected:
  Queue() {
    weight_ =
        &table_.add({.place = {.module = "weight"}, .shape = {2, 3}, .gradient_replaced = true});
    bias_ = &table_.add({.place = {.module = "bias"}, .shape = {2}});
    table_.allocate(Device::cpu, DType::f64, true);
  }

  void push(WeightGrads& queue) {
    queue.push({.weight = weight_, .bias = bias_, .dy = dy_.view(), .x = x_.view()}, stream_);
  }

  // The gradients are `times` times those of one record.
  void expect(double times) {
    for (std::int64_t o = 0; o < 2; ++o) {
      double sum = 0;
      for (std::int64_t t = 0; t < 4; ++t) sum += element(dy_, 2 * t + o);
      EXPECT_NEAR(element(bias_->grad, o), times * sum, 1e-14);
      for (std::int64_t i = 0; i < 3; ++i) {
        double product = 0;
        for (std::int64_t t = 0; t < 4; ++t)
          product += element(dy_, 2 * t + o) * element(x_, 3 * t + i);
        EXPECT_NEAR(element(weight_->grad, 3 * o + i), times * product, 1e-14);
      }
    }
  }

  ParamTable table_;
  const Param *weight_, *bias_;
  const HostTensor dy_ = random_tensor(DType::f64, {4, 2}, 1),
                   x_ = random_tensor(DType::f64, {4, 3}, 2);
  Stream stream_{Device::cpu};
};

TEST_F(Queue, AddsAtOnce) {
  WeightGrads queue;
  EXPECT_FALSE(queue.deferring());
  push(queue);
  expect(1);
  push(queue);
  expect(2);
  queue.run(stream_);
  expect(2);
}

TEST_F(Queue, AddsWhenToldAndOnce) {
  WeightGrads queue(true);
  EXPECT_TRUE(queue.deferring());
  push(queue);
  push(queue);
  expect(0);
  queue.run(stream_);
  expect(2);
  queue.run(stream_);
  expect(2);
  push(queue);
  queue.run(stream_);
  expect(3);
}

TEST_F(Queue, AddsTheFirstOnes) {
  WeightGrads queue;
  queue.set_deferring(true);
  for (int i = 0; i < 3; ++i) push(queue);
  EXPECT_EQ(queue.queued(), 3U);
  queue.run(2, stream_);
  EXPECT_EQ(queue.queued(), 1U);
  expect(2);
  queue.run(stream_);
  expect(3);
}

TEST_F(Queue, ReplacesTheWeightsGradientFirst) {
  for (const bool deferring : {false, true}) {
    WeightGrads queue(deferring);
    for (int step = 0; step < 2; ++step) {
      queue.begin();
      fill_with(weight_->grad, [](std::int64_t) { return std::nan(""); });
      fill_with(bias_->grad, [](std::int64_t) { return 0; });
      push(queue);
      push(queue);
      queue.run(stream_);
      expect(2);
    }
  }
}

// As a forward that was captured behind a backward: its replay begins a step.
TEST_F(Queue, KnowsWhatAReplayWrites) {
  WeightGrads queue;
  const WeightGrads::Written first = queue.written_by([&] { push(queue); });
  EXPECT_EQ(std::ranges::count(first, true), 1);
  const WeightGrads::Written again = queue.written_by([&] { push(queue); });
  EXPECT_EQ(std::ranges::count(again, true), 0);
  const WeightGrads::Written nothing = queue.written_by([] {});

  queue.begin();
  queue.add_written(nothing);
  fill_with(weight_->grad, [](std::int64_t) { return std::nan(""); });
  fill_with(bias_->grad, [](std::int64_t) { return 0; });
  push(queue);
  expect(1);

  // What was replayed has put the gradient there.
  queue.begin();
  queue.add_written(first);
  queue.add_written(again);
  fill_with(bias_->grad, [](std::int64_t) { return 0; });
  const double before = element(weight_->grad, 0);
  push(queue);
  EXPECT_NEAR(element(weight_->grad, 0), 2 * before, 1e-14);
}

}  // namespace
}  // namespace mt
