// A branch that sequences pass over, some of them, while the model learns.
#include <gtest/gtest.h>

#include "nn/branch.h"
#include "ops/ops.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kSequences = 600, kLength = 3, kHidden = 4;
constexpr double kShare = 0.25;

Linear linear(ParamTable& table, const char* name) {
  return {table, {.place = {.module = name, .param = "weight"}, .shape = {kHidden, kHidden}}, true};
}

// Which sequences pass over the branch; of all others y is x and what the module makes by 1 - p.
std::vector<bool> passed_over(Purpose purpose, std::int64_t layer, std::uint32_t stack = 0) {
  ParamTable table;
  const Mlp module(linear(table, "fc1"), linear(table, "fc2"), Activation::gelu_tanh, 0, 0);
  const Branch branch({}, module, false, {.purpose = purpose, .layer = layer, .drop_path = kShare});
  table.allocate(Device::cpu, DType::f64, true);
  for (Param& row : table.rows())
    fill_with(row.value,
              [](std::int64_t i) { return std::sin(1.0 + 0.7 * static_cast<double>(i)); });
  Workbench bench({.sequences = kSequences, .seq_length = kLength});
  const HostTensor x = random_tensor(DType::f64, {kSequences * kLength, kHidden}, 1);
  HostTensor learning(DType::f64, x.view().shape()), evaluated(DType::f64, x.view().shape());
  Step s = bench.step();
  s.tokens.of_sample = 2;
  s.tokens.stack = stack;
  branch.forward(s, learning, x.view(), nullptr);
  s.training = false;
  branch.forward(s, evaluated, x.view(), nullptr);
  std::vector<bool> passed(kSequences);
  for (std::int64_t i = 0; i < x.view().numel(); ++i) {
    const auto sequence = static_cast<std::size_t>(i / (kLength * kHidden));
    const double made = element(evaluated, i) - element(x.view(), i),
                 learnt = element(learning, i) - element(x.view(), i);
    if (i % (kLength * kHidden) == 0) passed[sequence] = learnt == 0;
    EXPECT_NEAR(learnt, passed[sequence] ? 0 : made / (1 - kShare), 1e-12) << i;
  }
  return passed;
}

TEST(DropPath, PassesOverWholeSequences) {
  const std::vector<bool> passed = passed_over(Purpose::hidden_dropout1, 3);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(passed, true)) / kSequences, kShare, 0.06);
}

TEST(DropPath, BranchesLayersAndStacksPassOverOthers) {
  const std::vector<bool> passed = passed_over(Purpose::hidden_dropout1, 3);
  EXPECT_NE(passed, passed_over(Purpose::hidden_dropout2, 3));
  EXPECT_NE(passed, passed_over(Purpose::hidden_dropout1, 4));
  EXPECT_NE(passed, passed_over(Purpose::hidden_dropout1, 3, 1));
  EXPECT_EQ(passed, passed_over(Purpose::hidden_dropout1, 3));
}

}  // namespace
}  // namespace mt
