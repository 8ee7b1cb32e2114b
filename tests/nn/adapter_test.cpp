#include "nn/adapter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/linear.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

void put(const Tensor& tensor, std::vector<double> values) {
  fill_with(tensor, [&](std::int64_t i) { return values.at(static_cast<std::size_t>(i)); });
}

// The numbers of an adapter that PEFT 0.21.2 computed: with alpha 4 and rank 2, divided by the rank
// and by its square root, and with magnitudes.
TEST(Adapter, ComputesWhatPeftDoes) {
  struct Form {
    double scale;
    bool magnitudes;
    std::array<double, 2> expected;
  };
  for (const auto& [scale, magnitudes, expected] :
       {Form{2, false, {-4.8, -3.65}}, Form{std::sqrt(8), false, {-5.338478, -4.022792}},
        Form{2, true, {-3.739629, -2.554332}}}) {
    ParamTable table;
    const Linear linear(table, {.place = {.module = "linear", .param = "weight"}, .shape = {2, 3}},
                        false,
                        {.rank = 2, .scale = scale, .magnitudes = magnitudes, .parts = {""}});
    table.allocate(Device::cpu, DType::f64, false);
    put(table.at("linear.weight").value, {1, -2, .5, .25, 0, 3});
    put(table.at("linear.lora_A").value, {.5, -1, 2, 1, .25, 0});
    put(table.at("linear.lora_B").value, {.1, -.2, .3, .4});
    if (magnitudes) put(table.at("linear.lora_magnitude").value, {2, 3.1});
    Workbench bench({.sequences = 1, .seq_length = 1});
    Step s = bench.step();
    const HostTensor x(DType::f64, {1, 3}), y(DType::f64, {1, 2});
    put(x, {1, 2, -1});
    linear.forward(s, y, x.view());
    EXPECT_NEAR(element(y, 0), expected[0], 1e-6);
    EXPECT_NEAR(element(y, 1), expected[1], 1e-6);
  }
}

// A part's rows in a rank's share of a weight: of groups of four queries, a key and a value, and of
// gates beside what they gate.
TEST(Adapter, KnowsTheRowsOfParts) {
  ParamTable table;
  table.divide(1, 2);
  const Param& qkv = table.add({.place = {.module = "qkv", .param = "weight"},
                                .shape = {24, 4},
                                .segments = {{"qkv", 24, 0, ShardAxis::tp, 6, {4, 1, 1}}}});
  const RowBlock key = adapted_rows(qkv, "k");
  EXPECT_EQ(key.period, 6);
  EXPECT_EQ(key.first, 4);
  EXPECT_EQ(key.count, 1);
  const Param& fc1 =
      table.add({.place = {.module = "fc1", .param = "weight"},
                 .shape = {20, 4},
                 .segments = {{"gate", 10, 0, ShardAxis::tp}, {"up", 10, 0, ShardAxis::tp}}});
  const RowBlock up = adapted_rows(fc1, "up");
  EXPECT_EQ(up.period, 10);
  EXPECT_EQ(up.first, 5);
  EXPECT_EQ(up.count, 5);
}

// Where outputs are cut so is B, and A's gradient is a sum; where inputs are, so is A, and B's is.
TEST(Adapter, IsSharedAsItsWeightIs) {
  ParamTable table;
  table.divide(1, 2);
  const auto add = [&](const char* module, int dimension) {
    const Linear linear(table,
                        {.place = {.module = module, .param = "weight"},
                         .shape = {8, 6},
                         .segments = {{"all", dimension == 0 ? 8 : 6, dimension, ShardAxis::tp}}},
                        false, {.rank = 2, .parts = {""}});
  };
  add("column", 0);
  add("row", 1);
  EXPECT_EQ(table.at("column.lora_A").local, Shape({2, 6}));
  EXPECT_EQ(table.at("column.lora_A").summed_over, SummedOver::tp);
  EXPECT_EQ(table.at("column.lora_B").local, Shape({4, 2}));
  EXPECT_EQ(table.at("column.lora_B").summed_over, SummedOver::none);
  EXPECT_EQ(table.at("row.lora_A").local, Shape({2, 3}));
  EXPECT_EQ(table.at("row.lora_A").summed_over, SummedOver::none);
  EXPECT_EQ(table.at("row.lora_B").local, Shape({8, 2}));
  EXPECT_EQ(table.at("row.lora_B").summed_over, SummedOver::tp);
}

}  // namespace
}  // namespace mt
