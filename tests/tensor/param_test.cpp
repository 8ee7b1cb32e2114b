// The table of parameters: its rows, where they lie, and the buffers laid out like it.
#include "tensor/param.h"

#include <gtest/gtest.h>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

ParamTable sample_table() {
  ParamTable table;
  table.add({.place = {.module = "a", .param = "weight"}, .shape = {5, 3}});
  table.add({.place = {.module = "a", .param = "bias"}, .shape = {5}});
  const RowPlace place{.stack = "decoder", .layer = 1, .module = "mlp", .param = "weight"};
  table.add({.place = place, .shape = {8, 8}, .segments = {{"rows", 8, 0, ShardAxis::tp}}});
  table.add({.place = {.module = "b", .param = "weight"}, .shape = {1, 65}});
  return table;
}

TEST(RowPlace, NamesAreMegatronCores) {
  EXPECT_EQ((RowPlace{.stack = "embedding", .module = "word_embeddings", .param = "weight"}).name(),
            "embedding.word_embeddings.weight");
  EXPECT_EQ((RowPlace{.stack = "output_layer", .param = "weight"}).name(), "output_layer.weight");
  RowPlace place{
      .stack = "decoder", .layer = 3, .module = "mlp.linear_fc2", .param = "layer_norm_bias"};
  EXPECT_EQ(place.name(), "decoder.layers.3.mlp.linear_fc2.layer_norm_bias");
  place = {.stack = "decoder", .layer = 12, .expert = 0, .module = "linear_fc1", .param = "weight"};
  EXPECT_EQ(place.name(), "decoder.layers.12.mlp.experts.local_experts.0.linear_fc1.weight");
}

TEST(ParamTable, CompletesItsRows) {
  ParamTable table = sample_table();
  const Param& weight = table.at("a.weight");
  EXPECT_EQ(weight.decay_mult, 1);
  ASSERT_EQ(weight.segments.size(), 1U);
  EXPECT_EQ(weight.segments[0].extent, 5);
  EXPECT_EQ(weight.segments[0].axis, ShardAxis::none);
  const Param& stacked = table.at("decoder.layers.1.mlp.weight");
  EXPECT_EQ(stacked.segments[0].name, "rows");
  EXPECT_EQ(table.at("b.weight").index, 3U);
  EXPECT_EQ(table.count(), 15 + 5 + 64 + 65);
}

// Gate and up rows are cut each by itself; a row's channels lie apart.
TEST(ParamTable, ARankHasItsPartOfEachSegment) {
  ParamTable table;
  table.divide(1, 2);
  const Param& rows =
      table.add({.place = {.module = "fc1"},
                 .shape = {12, 3},
                 .segments = {{"gate", 4, 0, ShardAxis::tp}, {"up", 8, 0, ShardAxis::tp}}});
  EXPECT_EQ(rows.local, (Shape{6, 3}));
  ASSERT_EQ(rows.runs().size(), 2U);
  EXPECT_EQ(rows.runs()[0].global, 2 * 3);
  EXPECT_EQ(rows.runs()[1].local, 2 * 3);
  EXPECT_EQ(rows.runs()[1].global, (4 + 4) * 3);
  EXPECT_EQ(rows.runs()[1].count, 4 * 3);
  const Param& columns = table.add(
      {.place = {.module = "fc2"}, .shape = {2, 8}, .segments = {{"up", 8, 1, ShardAxis::tp}}});
  EXPECT_EQ(columns.local, (Shape{2, 4}));
  ASSERT_EQ(columns.runs().size(), 2U);
  EXPECT_EQ(columns.runs()[1].local, 4);
  EXPECT_EQ(columns.runs()[1].global, 8 + 4);
  EXPECT_FALSE(table.add({.place = {.module = "norm"}, .shape = {3}}).is_cut());
  EXPECT_EQ(table.count(), 36 + 16 + 3);
  const auto thirds = [&] {
    table.add(
        {.place = {.module = "qkv"}, .shape = {6}, .segments = {{"qkv", 6, 0, ShardAxis::tp, 2}}});
  };
  EXPECT_THROW(thirds(), Error);  // three groups for two ranks
}

TEST(ParamTable, VectorsDoNotDecay) {
  ParamTable table = sample_table();
  for (const Param& row : table.rows())
    EXPECT_EQ(row.decay_mult, row.shape.rank() == 1 ? 0 : 1) << row.name();
}

TEST(ParamTable, ReferencesStayValidAsItGrows) {
  ParamTable table;
  const Param& first = table.add({.place = {.module = "first"}, .shape = {1}});
  for (int i = 0; i < 1000; ++i) table.add({.place = {.module = std::to_string(i)}, .shape = {1}});
  EXPECT_EQ(&first, &table.at("first"));
  EXPECT_EQ(first.name(), "first");
}

TEST(ParamTable, AnUnknownNameIsOurBug) {
  ParamTable table = sample_table();
  EXPECT_THROW(table.at("a.wait"), Error);
}

TEST(ParamTable, RowsStartAtMultiplesOf64Elements) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    ParamTable table = sample_table();
    table.allocate(Device::cpu, dtype, true);
    const std::int64_t offsets[] = {0, 64, 128, 192};
    for (const Param& row : table.rows()) {
      EXPECT_EQ(row.value.shape(), row.shape);
      EXPECT_EQ(row.value.dtype(), dtype);
      const auto from_start = [&](const Tensor& part, const Tensor& whole) {
        return (static_cast<const std::byte*>(part.data()) -
                static_cast<const std::byte*>(whole.data())) /
               static_cast<std::ptrdiff_t>(size_of(dtype));
      };
      EXPECT_EQ(from_start(row.value, values_of(table)), offsets[row.index]);
      EXPECT_EQ(from_start(row.grad, gradients_of(table)), offsets[row.index]);
    }
    EXPECT_EQ(values_of(table).shape(), Shape{192 + 128});
    EXPECT_EQ(gradients_of(table).shape(), Shape{192 + 128});
    EXPECT_EQ(largest(values_of(table)), 0);
  }
}

TEST(ParamTable, WithoutGradientsHasNone) {
  ParamTable table = sample_table();
  table.allocate(Device::cpu, DType::f32, false);
  for (const Param& row : table.rows()) EXPECT_FALSE(row.grad);
}

TEST(ParamTable, RowsMayLieElsewhere) {
  ParamTable table = sample_table();
  const ParamLayout layout{.starts = {300, 200, 100, 0}, .size = 400};
  table.begin_allocation(Device::cpu, DType::f64);
  table.allocate({0, 1, 2, 3}, layout, layout);
  EXPECT_EQ(values_of(table).shape(), Shape{400});
  for (const Param& row : table.rows()) {
    const auto start = static_cast<std::ptrdiff_t>(300 - 100 * row.index);
    EXPECT_EQ(row.value.as<double>() - values_of(table).as<double>(), start);
    EXPECT_EQ(row.grad.as<double>() - gradients_of(table).as<double>(), start);
  }
}

// Of trainable and frozen rows, of dense ones and experts, in the table's type or one that needs
// more bits.
ParamTable mixed_table() {
  ParamTable table;
  const auto add = [&](const char* module, Copies copies, std::optional<DType> dtype) {
    table.add({.place = {.module = module}, .shape = {3}, .copies = copies, .dtype = dtype});
  };
  add("fc", Copies::dense, {});
  add("router", Copies::dense, DType::f32);
  add("expert", Copies::experts, {});
  add("frozen", Copies::dense, {});
  add("norm", Copies::dense, {});
  add("frozen.expert", Copies::experts, {});
  table.freeze([](const RowPlace& place) { return place.module.starts_with("frozen"); });
  return table;
}

TEST(ParamTable, RowsOfAKindLieTogether) {
  ParamTable table = mixed_table();
  table.allocate(Device::cpu, DType::bf16, true);
  using Rows = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(table.kinds(false), (Rows{{1}, {0, 2, 4}, {3, 5}}));
  EXPECT_EQ(table.kinds(true), (Rows{{1}, {0, 4}, {2}, {3}, {5}}));
  ASSERT_EQ(table.flat_rows().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const FlatRows& flat = table.flat_rows()[i];
    EXPECT_EQ(flat.rows, table.kinds(false)[i]);
    EXPECT_EQ(flat.values.numel(), 64 * std::ssize(flat.rows));
    for (const std::size_t row : flat.rows) {
      EXPECT_EQ(table.rows()[row].value.dtype(), flat.values.dtype());
      EXPECT_EQ(bool(table.rows()[row].grad), table.rows()[row].trainable);
    }
  }
  EXPECT_EQ(table.at("fc").value.dtype(), DType::bf16);
  EXPECT_EQ(table.at("router").value.dtype(), DType::f32);
}

// A state's key has a layer where of the layers stacked under it some have none; experts of a layer
// are frozen together.
TEST(ParamTable, FreezesByPlaces) {
  ParamTable table;
  for (const char* module : {"norm", "fc"})
    for (int layer = 0; layer < 3; ++layer)
      table.add({.place = {.stack = "decoder", .layer = layer, .module = module},
                 .shape = {3},
                 .layers = 3});
  table.freeze([](const RowPlace& place) { return place.module == "fc" && place.layer < 2; });
  for (const Param& row : table.rows()) {
    EXPECT_EQ(row.trainable, row.place.module == "norm" || row.place.layer == 2) << row.name();
    EXPECT_EQ(row.state_key_has_layer, row.place.module == "fc") << row.name();
  }
  table.add({.place = {.layer = 0, .expert = 1, .module = "up"}, .shape = {3}, .experts = 2});
  EXPECT_THROW(table.freeze([](const RowPlace& place) { return place.expert == 1; }), Error);
  table.freeze([](const RowPlace& place) { return place.module == "up"; });
  EXPECT_FALSE(table.rows().back().trainable);
  EXPECT_TRUE(table.rows().front().trainable);
}

TEST(ParamTable, ARowsOwnTypeIsTheWiderOne) {
  ParamTable table = mixed_table();
  for (const DType dtype : {DType::f32, DType::f64}) {
    table.allocate(Device::cpu, dtype, true);
    EXPECT_EQ(table.kinds(false).size(), 2U);
    EXPECT_EQ(table.at("router").value.dtype(), dtype);
    EXPECT_EQ(table.at("router").grad.dtype(), dtype);
  }
}

TEST(ParamTable, GradientsOf16BitsAreOfValuesOf16Bits) {
  ParamTable table = mixed_table();
  table.keep_gradients_in(DType::bf16);
  table.allocate(Device::cpu, DType::bf16, true);
  EXPECT_EQ(table.at("fc").grad.dtype(), DType::bf16);
  EXPECT_EQ(table.at("router").grad.dtype(), DType::f32);
  EXPECT_FALSE(table.at("frozen").grad);
}

TEST(ParamTable, BiasesAndVectorsDoNotDecay) {
  ParamTable table;
  EXPECT_EQ(table.add({.place = {.module = "fc", .param = "weight"}, .shape = {2, 2}}).decay_mult,
            1);
  EXPECT_EQ(table.add({.place = {.module = "norm", .param = "weight"}, .shape = {2}}).decay_mult,
            0);
  EXPECT_EQ(
      table.add({.place = {.module = "experts", .param = "bias"}, .shape = {2, 2}}).decay_mult, 0);
}

TEST(ParamTable, OnMetaTakesNoMemory) {
  ParamTable table;
  table.add({.place = {.module = "large"}, .shape = {1 << 20, 1 << 17}});
  table.allocate(Device::meta, DType::f32, true);
  EXPECT_EQ(table.device(), Device::meta);
  EXPECT_EQ(values_of(table).bytes(), std::size_t{1} << 39);
}

}  // namespace
}  // namespace mt
