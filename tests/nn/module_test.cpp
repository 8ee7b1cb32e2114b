// What every module promises (nn/step.h), tried on all of them.
#include "tests/nn/module_test.h"

#include <gtest/gtest.h>

#include "tests/support/derivative.h"

namespace mt {
namespace {

// All that one forward and backward make.
struct Outcome {
  HostTensor y, dx;
  std::vector<HostTensor> gradients;
};

class EveryModule : public testing::TestWithParam<NamedSubject> {
 protected:
  EveryModule()
      : subject_(GetParam().make()),
        x_(random_tensor(DType::f64, subject_->x, 1)),
        dy_(subject_->dy ? clone(subject_->dy) : random_tensor(DType::f64, subject_->y, 2)) {}

  ParamTable& table() { return subject_->table; }

  HostTensor forward_only() {
    Workbench bench(subject_->sizes);
    Step s = bench.step();
    HostTensor y(DType::f64, subject_->y);
    subject_->forward(s, y, x_.view(), false);
    return y;
  }

  // With gradients from `start` on.
  Outcome forward_and_backward(WorkbenchOptions options, bool recompute = false, double start = 0) {
    options.sequences = subject_->sizes.sequences;
    options.seq_length = subject_->sizes.seq_length;
    options.document = subject_->sizes.document;
    options.causal = subject_->sizes.causal;
    Workbench bench(options);
    Step s = bench.step();
    fill_with(gradients_of(table()), [&](std::int64_t) { return start; });
    Outcome outcome{HostTensor(DType::f64, subject_->y), HostTensor(DType::f64, subject_->x), {}};
    if (recompute) {
      subject_->forward(s, outcome.y, x_.view(), false);
      scribble(s.layer);
    }
    subject_->forward(s, outcome.y, x_.view(), true);
    scribble(s.layer);
    subject_->backward(s, outcome.dx, dy_.view(), x_.view());
    scribble(s.layer);
    bench.run_weight_grads();
    for (const Param& row : table().rows()) outcome.gradients.push_back(clone(row.grad));
    return outcome;
  }
  Outcome forward_and_backward() { return forward_and_backward(WorkbenchOptions()); }

  // Rewinds an arena; what was in it, and what lies in it now, must not matter.
  static void scribble(Arena& arena) {
    arena.rewind(0);
    fill_with(arena.alloc(DType::f64, {1 << 16}),
              [](std::int64_t i) { return 1e3 * static_cast<double>(i); });
    arena.rewind(0);
  }

  void expect_same(const Outcome& got, const Outcome& expected) {
    EXPECT_SAME_BITS(got.y, expected.y);
    EXPECT_SAME_BITS(got.dx, expected.dx);
    for (std::size_t i = 0; i < expected.gradients.size(); ++i)
      EXPECT_SAME_BITS(got.gradients[i], expected.gradients[i]) << table().rows()[i].name();
  }

  std::unique_ptr<Subject> subject_;
  HostTensor x_, dy_;
};

std::string name_of_case(const testing::TestParamInfo<NamedSubject>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Is, EveryModule, testing::ValuesIn(all_subjects()), name_of_case);

TEST_P(EveryModule, BackwardIsTheDerivativeOfForward) {
  const Outcome outcome = forward_and_backward();
  const auto f = [&] { return dot_of(dy_, forward_only()); };
  if (x_.view().numel() > 0) expect_gradient(outcome.dx, x_, f, 5, "x");
  for (Param& row : table().rows())
    expect_gradient(outcome.gradients[row.index], row.value, f, 6, row.name());
}

TEST_P(EveryModule, SavesWithoutChangingABitOfItsOutput) {
  EXPECT_SAME_BITS(forward_and_backward().y, forward_only());
}

TEST_P(EveryModule, AddsToGradientsOrReplacesThemAndOverwritesTheInputs) {
  const Outcome from_zero = forward_and_backward(), from_two = forward_and_backward({}, false, 2);
  EXPECT_SAME_BITS(from_two.dx, from_zero.dx);
  for (std::size_t i = 0; i < from_zero.gradients.size(); ++i) {
    const HostTensor expected = clone(from_zero.gradients[i]);
    const double before = table().rows()[i].gradient_replaced ? 0 : 2;
    fill_with(expected,
              [&](std::int64_t k) { return element(from_zero.gradients[i], k) + before; });
    EXPECT_TENSORS_NEAR(from_two.gradients[i], expected, 1e-13) << table().rows()[i].name();
  }
}

TEST_P(EveryModule, DeferredWeightGradientsHaveTheSameBits) {
  expect_same(forward_and_backward({.deferring = true}), forward_and_backward());
}

TEST_P(EveryModule, RecomputeGivesTheSameBits) {
  expect_same(forward_and_backward({}, true), forward_and_backward());
}

TEST_P(EveryModule, LeavesGradientsOfFrozenParametersAlone) {
  const Outcome all = forward_and_backward();
  for (const bool deferring : {false, true})
    for (Param& frozen : table().rows()) {
      frozen.trainable = false;
      Outcome outcome = forward_and_backward({.deferring = deferring});
      EXPECT_EQ(largest(outcome.gradients[frozen.index]), 0) << frozen.name();
      outcome.gradients[frozen.index] = clone(all.gradients[frozen.index]);
      expect_same(outcome, all);  // nothing else changes
      frozen.trainable = true;
    }
}

TEST_P(EveryModule, DropsAndSmoothsNothingOutsideOfTraining) {
  WorkbenchOptions evaluating = subject_->sizes;
  evaluating.training = false;
  const auto y_of = [&](const WorkbenchOptions& options) {
    Workbench bench(options);
    Step s = bench.step();
    HostTensor y(DType::f64, subject_->y);
    subject_->forward(s, y, x_.view(), false);
    return y;
  };
  const HostTensor y = y_of(evaluating), training = y_of(subject_->sizes);
  const std::string& name = GetParam().name;
  const bool differs = name.ends_with("dropout") || name.ends_with("smoothing");
  EXPECT_EQ(worst_error(training, y) > 0, differs);
}

}  // namespace
}  // namespace mt
