#include "nn/packed_weight.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nn/linear.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

// The weight of a module of layer 0, frozen and packed, on a rank of so many.
Param packed_row(ParamTable& table, int rank, int ranks, const Shape& shape,
                 std::vector<Segment> segments) {
  table.divide(rank, ranks);
  table.add({.place = {.stack = "decoder", .layer = 0, .module = "linear", .param = "weight"},
             .shape = shape,
             .segments = std::move(segments)});
  table.freeze([](const RowPlace&) { return true; });
  pack_weights(table, [](const RowPlace&) { return true; });
  return table.rows().front();
}

// Numbers of which every row, and every part of it, has another size.
HostTensor numbers_of(const Shape& shape) {
  HostTensor numbers(DType::f32, shape);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const auto bits = static_cast<std::uint32_t>(i) * 374761393U;
    numbers.view().as<float>()[i] =
        static_cast<float>(bits / 2147483648.0 - 1) * (1 + static_cast<float>(i / 64 % 97) / 10);
  }
  return numbers;
}

struct Case {
  const char* name;
  Shape shape;
  std::vector<Segment> segments;
};
std::vector<Case> cases() {
  return {{"qkv", {96, 640}, {{"qkv", 96, 0, ShardAxis::tp, 24, {16, 4, 4}}}},
          {"gates", {80, 192}, {{"gate", 40, 0, ShardAxis::tp}, {"up", 40, 0, ShardAxis::tp}}},
          {"inputs", {60, 256}, {{"heads", 256, 1, ShardAxis::tp, 32}}},
          {"whole", {300, 64}, {}}};
}

// What a rank has becomes its part of what the whole weight becomes, to the bit.
TEST(PackedWeight, OfARankIsPartOfTheWhole) {
  for (const Case& c : cases())
    for (const int ranks : {1, 2}) {
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(concat(c.name, ", rank ", rank, " of ", ranks));
        ParamTable table;
        const Param row = packed_row(table, rank, ranks, c.shape, c.segments);
        const HostTensor whole = numbers_of(c.shape), rounded = numbers_of(c.shape);
        round_packed(row, rounded.view());
        table.allocate(Device::cpu, DType::f32, false);
        const Param& stored = table.rows().front();
        ASSERT_EQ(stored.value.dtype(), DType::u8);
        EXPECT_LT(static_cast<double>(stored.packed_bytes),
                  0.59 * static_cast<double>(stored.local.numel()));
        pack(stored, whole.view(), stored.value);
        Workbench bench({.dtype = DType::f32, .sequences = 1, .seq_length = 1});
        Step s = bench.step();
        const ConstTensor back = unpacked(s, stored);
        for (const ElementRun& run : stored.runs())
          for (std::int64_t i = 0; i < run.count; ++i)
            ASSERT_EQ(back.as<float>()[run.local + i], rounded.view().as<float>()[run.global + i])
                << run.local + i;
      }
    }
}

// Queries are quantised as if they were a weight of their own.
TEST(PackedWeight, PartsHaveScalesOfTheirOwn) {
  const Shape shape{96, 640};
  ParamTable table, alone;
  const Param row = packed_row(table, 0, 1, shape, {{"qkv", 96, 0, ShardAxis::tp, 24, {16, 4, 4}}});
  const HostTensor rounded = numbers_of(shape), queries(DType::f32, {64, 640});
  const auto row_of_query = [](std::int64_t i) { return i / 16 * 24 + i % 16; };
  for (std::int64_t i = 0; i < 64; ++i)
    std::copy_n(rounded.view().as<float>() + row_of_query(i) * 640, 640,
                queries.view().as<float>() + i * 640);
  round_packed(row, rounded.view());
  round_packed(packed_row(alone, 0, 1, {64, 640}, {}), queries.view());
  for (std::int64_t i = 0; i < 64; ++i)
    EXPECT_TRUE(std::equal(queries.view().as<float>() + i * 640,
                           queries.view().as<float>() + (i + 1) * 640,
                           rounded.view().as<float>() + row_of_query(i) * 640))
        << i;
}

TEST(PackedWeight, IsCutAtBlocks) {
  ParamTable table;
  try {
    packed_row(table, 0, 2, {8, 192}, {{"heads", 192, 1, ShardAxis::tp, 32}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_STREQ(error.what(),
                 "decoder.layers.0.linear.weight: rows of 96 numbers on each tensor-parallel rank, "
                 "expected a multiple of 64, the numbers of a block of nf4");
  }
}

}  // namespace
}  // namespace mt
