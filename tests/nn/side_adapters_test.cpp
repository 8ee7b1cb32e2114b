// Sequences that share a step, each with an adapter beside a layer's weight or with none, get what
// a layer that has their adapter alone makes of them.
#include "nn/side_adapters.h"

#include <gtest/gtest.h>

#include "nn/linear.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kIn = 5, kOut = 8, kRank = 2, kLength = 3;
constexpr double kScale = 1.5;

// Numbers that are none of a simple row's.
void fill_mixed(const Tensor& tensor, int seed) {
  fill_with(tensor, [&](std::int64_t i) {
    return static_cast<double>((i * 37 + seed * 101 + i * i * 11) % 64 - 32) / 32;
  });
}

enum class Form { plain, gelu, swiglu, add };

class SideAdaptersIn : public testing::TestWithParam<Form> {
 protected:
  std::int64_t columns() const { return GetParam() == Form::swiglu ? kOut / 2 : kOut; }
  // What the layer makes of a step's tokens, in front of which a norm stands.
  HostTensor run(const Linear& linear, const Norm& norm, Step s, ConstTensor x) const {
    const std::int64_t rows = x.shape()[0];
    HostTensor y(DType::f64, {rows, columns()});
    const HostTensor at(DType::f64, {rows, kOut});
    switch (GetParam()) {
      case Form::plain:
        linear.forward(s, y, x, &norm);
        break;
      case Form::gelu:
        linear.forward_gelu(s, y, at, x, &norm);
        break;
      case Form::swiglu:
        linear.forward_swiglu(s, y, at, x, &norm);
        break;
      case Form::add: {
        const HostTensor residual(DType::f64, {rows, kOut});
        fill_mixed(residual, 9);
        linear.forward_add(s, y, residual.view(), x, {});
        break;
      }
    }
    return y;
  }
};

TEST_P(SideAdaptersIn, EachSequenceGetsWhatItsOwnMakes) {
  const auto add_norm = [](ParamTable& table) {
    return Norm(table, {.place = {.module = "norm", .param = "weight"}, .shape = {kIn}},
                {.kind = NormKind::rms, .eps = 1e-5});
  };
  const auto fill_table = [](ParamTable& table) {
    table.allocate(Device::cpu, DType::f64, false);
    fill_mixed(table.at("linear.weight").value, 1);
    fill_mixed(table.at("linear.bias").value, 2);
    fill_mixed(table.at("norm.weight").value, 3);
  };
  const Param weight{.place = {.module = "linear", .param = "weight"}, .shape = {kOut, kIn}};
  ParamTable table;
  const Linear linear(table, weight, true);
  const Norm norm = add_norm(table);
  fill_table(table);
  SideAdapters adapters;
  std::vector<HostTensor> expected;
  const std::vector<std::int64_t> has = {2, 2, 0, 1, 3};
  const auto sequences = std::ssize(has);
  const HostTensor x(DType::f64, {sequences * kLength, kIn});
  fill_mixed(x, 4);
  // Each adapter's layer runs over all of the tokens; of the third there is none.
  for (int adapter = 0; adapter <= 3; ++adapter) {
    ParamTable own;
    const bool adds = adapter == 1 || adapter == 2;
    const Linear layer(own, weight, true,
                       {.rank = kRank, .scale = kScale, .parts = std::vector<std::string>(adds)});
    const Norm same_norm = add_norm(own);
    fill_table(own);
    if (adds) {
      const Tensor a = own.at("linear.lora_A").value, b = own.at("linear.lora_B").value;
      fill_mixed(a, 10 + adapter);
      fill_mixed(b, 20 + adapter);
      std::vector<Buffer> memory;
      memory.emplace_back(Device::cpu, a.bytes());
      memory.emplace_back(Device::cpu, b.bytes());
      const Tensor of_a = memory[0].tensor(DType::f64, a.shape()),
                   scaled = memory[1].tensor(DType::f64, b.shape());
      fill_with(of_a, [&](std::int64_t i) { return a.as<double>()[i]; });
      fill_with(scaled, [&](std::int64_t i) { return kScale * b.as<double>()[i]; });
      const std::size_t index = table.at("linear.weight").index;
      adapters.add({{index, {.a = of_a, .b = scaled}}}, std::move(memory));
    } else if (adapter > 0) {
      adapters.add({}, {});
    }
    Workbench bench({.sequences = sequences, .seq_length = kLength, .training = false});
    expected.push_back(run(layer, same_norm, bench.step(), x.view()));
  }
  EXPECT_EQ(adapters.count(), 3);
  Workbench bench({.sequences = sequences, .seq_length = kLength, .training = false});
  Step s = bench.step();
  AdaptedRuns runs;
  for (const std::int64_t adapter : has) add_sequence(runs, adapter);
  EXPECT_EQ(runs, (AdaptedRuns{{2, 2}, {0, 1}, {1, 1}, {3, 1}}));
  s.adapters = &adapters;
  s.adapted = runs;
  const HostTensor y = run(linear, norm, s, x.view());
  double farthest = 0;
  for (std::int64_t i = 0; i < y.view().numel(); ++i) {
    const std::int64_t sequence = i / columns() / kLength;
    const auto adapter = static_cast<std::size_t>(has[static_cast<std::size_t>(sequence)]);
    EXPECT_NEAR(element(y, i), element(expected[adapter], i), 1e-13) << i;
    farthest = std::max(farthest, std::abs(element(y, i) - element(expected[0], i)));
  }
  EXPECT_GT(farthest, 0.1);
}

constexpr const char* kNames[] = {"Plain", "Gelu", "Swiglu", "Add"};
INSTANTIATE_TEST_SUITE_P(Forms, SideAdaptersIn,
                         testing::Values(Form::plain, Form::gelu, Form::swiglu, Form::add),
                         [](const auto& which) {
                           return std::string(kNames[static_cast<std::size_t>(which.param)]);
                         });

}  // namespace
}  // namespace mt
