// Matrices of Hugging Face's folders in the blocks that they are multiplied with as
// (kernels/packed_rows.h), against the numbers that are read of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/half.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"
#include "kernels/packed_rows.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

constexpr std::int64_t kOut = 24;

struct QuantizedBlocks : Convert {
  struct Stored {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<std::int64_t> values = {};  // of i64; else any
    bool is_broken = false;                 // the last is no finite number, or a scale of none
    float value = 0;                        // of f32, if not 0
    int most = 255;                         // of u8
  };
  static void break_last(DType dtype, std::uint8_t* end) {
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    if (dtype == DType::f8) end[-1] = 0x7f;
    if (dtype == DType::u8) end[-1] = 0xff;
    if (dtype == DType::f32) std::memcpy(end - 4, &kInfinite, 4);
    if (dtype == DType::f16) reinterpret_cast<Fp16*>(end)[-1] = Fp16(kInfinite);
    if (dtype == DType::bf16) reinterpret_cast<Bf16*>(end)[-1] = Bf16(kInfinite);
  }
  // Any bits, but for floats, which are small numbers, and codes of E4M3, which are finite.
  void write(const std::vector<Stored>& tensors) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const Stored& t : tensors) entries.push_back({t.name, t.dtype, t.shape});
    SafetensorsWriter writer(scratch_.path(""), entries, "model.safetensors");
    std::uint32_t state = 1;
    const auto next = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    for (const Stored& t : tensors) {
      const HostTensor tensor(t.dtype, t.shape);
      auto* const bytes = static_cast<std::uint8_t*>(tensor.view().data());
      for (std::size_t i = 0; i < tensor.view().bytes(); ++i)
        bytes[i] = static_cast<std::uint8_t>(next());
      for (std::int64_t i = 0; i < t.shape.numel(); ++i) {
        const float x = (static_cast<float>(next() % 200) - 100) / 1000;
        if (t.dtype == DType::f32) tensor.view().as<float>()[i] = t.value != 0 ? t.value : x;
        if (t.dtype == DType::u8)
          bytes[i] = static_cast<std::uint8_t>(std::min<int>(bytes[i], t.most));
        if (t.dtype == DType::f16) reinterpret_cast<Fp16*>(bytes)[i] = Fp16(x);
        if (t.dtype == DType::bf16) reinterpret_cast<Bf16*>(bytes)[i] = Bf16(x);
        if (t.dtype == DType::i64)
          tensor.view().as<std::int64_t>()[i] = t.values[static_cast<std::size_t>(i)];
        if (t.dtype == DType::f8 && (bytes[i] & 127) == 127) bytes[i] = 3;
      }
      if (t.is_broken) break_last(t.dtype, bytes + tensor.view().bytes());
      writer.write(t.name, tensor.view());
    }
    writer.close();
  }
  // The type of the blocks of x.weight, whose numbers are those that are read.
  std::optional<BlockType> block(const std::vector<Stored>& tensors, const Quantization& q) {
    write(tensors);
    const auto source = unpacked(open_tensors(scratch_.path("model.safetensors")), q, DType::f32);
    const PackedWeight* const weight =
        dynamic_cast<const PackedTensors&>(*source).find_packed("x.weight");
    EXPECT_NE(weight, nullptr);
    if (!weight->block) return {};
    const std::int64_t rows = weight->shape[0], cols = weight->shape[1];
    const std::vector<BlockType> types(static_cast<std::size_t>(rows), *weight->block);
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(PackedRows::bytes(types, cols)));
    PackedRows::lay_out(packed.data(), types, cols);
    const PackedRows::Run run = PackedRows(packed.data()).runs()[0];
    const std::int64_t bytes = PackedRows(packed.data()).row_bytes(run);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, rows}})
      weight->blocks(begin, end, packed.data() + run.offset + begin * bytes);
    std::vector<float> numbers(static_cast<std::size_t>(rows * cols));
    cpu::unpack_rows(numbers.data(), packed.data());
    const HostTensor expected(DType::f32, weight->shape);
    source->read_original("x.weight", {0, 0}, expected.view());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] != expected.view().as<float>()[i]) {
        ADD_FAILURE() << i << ": " << numbers[i] << ", expected " << expected.view().as<float>()[i];
        break;
      }
    return weight->block;
  }
};

TEST_F(QuantizedBlocks, OfAwq) {
  for (const auto& [group, type] : {std::pair{128, BlockType::int4_128},
                                    {64, BlockType::int4_64},
                                    {32, BlockType::int4_32},
                                    {256, BlockType::int4_128}})
    for (const DType scales : {DType::f16, DType::bf16})
      EXPECT_EQ(block({{"x.qweight", DType::i32, {256, kOut / 8}},
                       {"x.qzeros", DType::i32, {256 / group, kOut / 8}},
                       {"x.scales", scales, {256 / group, kOut}}},
                      {.method = "awq"}),
                type);
}

// Words of eight bits, scales of 32, and groups of 16 have no such blocks.
TEST_F(QuantizedBlocks, OfGptq) {
  const auto of = [&](int bits, int group, DType scales, bool less_one) {
    return block({{"x.qweight", DType::i32, {256 * bits / 32, kOut}},
                  {"x.qzeros", DType::i32, {256 / group, kOut * bits / 32}},
                  {"x.scales", scales, {256 / group, kOut}}},
                 {.method = "gptq", .bits = {bits}, .zeros_less_one = less_one});
  };
  EXPECT_EQ(of(4, 128, DType::f16, true), BlockType::int4_128);
  EXPECT_EQ(of(4, 32, DType::bf16, false), BlockType::int4_32);
  EXPECT_EQ(of(4, 128, DType::f32, true), std::nullopt);
  EXPECT_EQ(of(4, 16, DType::f16, true), std::nullopt);
  EXPECT_EQ(of(8, 128, DType::f16, true), std::nullopt);
}

TEST_F(QuantizedBlocks, OfCompressedTensors) {
  for (const auto& [group, type] :
       {std::pair{128, BlockType::int4_128}, {64, BlockType::int4_64}}) {
    std::vector<Stored> tensors{{"x.weight_packed", DType::i32, {kOut, 32}},
                                {"x.weight_scale", DType::bf16, {kOut, 256 / group}},
                                {"x.weight_shape", DType::i64, {2}, {kOut, 256}}};
    const Quantization q{.method = "compressed-tensors", .bits = {4}};
    EXPECT_EQ(block(tensors, q), type);
    tensors.push_back({"x.weight_zero_point", DType::i32, {kOut / 8, 256 / group}});
    EXPECT_EQ(block(tensors, q), type);
  }
}

// Scales of squares, of rows, and of all; of whole numbers, too.  Groups of 64, and rows that are
// no blocks of 128, have none.
TEST_F(QuantizedBlocks, OfEightBits) {
  for (const DType codes : {DType::f8, DType::i8}) {
    const BlockType type = codes == DType::f8 ? BlockType::e4m3 : BlockType::int8;
    for (const Shape& scale : {Shape{1, 2}, Shape{kOut, 1}, Shape{1}, Shape{kOut, 2}})
      EXPECT_EQ(block({{"x.weight", codes, {kOut, 256}}, {"x.weight_scale", DType::f32, scale}},
                      {.method = "compressed-tensors"}),
                type)
          << scale[0];
    EXPECT_EQ(block({{"x.weight", codes, {kOut, 256}}, {"x.weight_scale", DType::f32, {kOut, 4}}},
                    {.method = "compressed-tensors"}),
              std::nullopt);
    EXPECT_EQ(block({{"x.weight", codes, {kOut, 192}}, {"x.weight_scale", DType::f32, {kOut, 1}}},
                    {.method = "compressed-tensors"}),
              std::nullopt);
  }
}

// Scales that are no E4M3, a scale of scales that is next to nothing, and rows that are no blocks
// of 128 have none.
TEST_F(QuantizedBlocks, OfNvfp4) {
  const auto of = [&](std::int64_t in, DType scales, const char* second, float value) {
    return block({{"x.weight_packed", DType::u8, {kOut, in / 2}},
                  {"x.weight_scale", scales, {kOut, in / 16}},
                  {second, DType::f32, {1}, {}, false, value}},
                 {.method = "compressed-tensors"});
  };
  for (const auto& [second, value] :
       {std::pair{"x.weight_global_scale", 1234.F}, {"x.weight_scale_2", 0.0123F}})
    EXPECT_EQ(of(256, DType::f8, second, value), BlockType::nvfp4);
  EXPECT_EQ(of(256, DType::f32, "x.weight_scale_2", 1), std::nullopt);
  EXPECT_EQ(of(256, DType::f8, "x.weight_scale_2", 1e-35F), std::nullopt);
  EXPECT_EQ(of(192, DType::f8, "x.weight_scale_2", 1), std::nullopt);
}

TEST_F(QuantizedBlocks, OfMxfp4) {
  EXPECT_EQ(block({{"x.weight_packed", DType::u8, {kOut, 96 / 2}},
                   {"x.weight_scale", DType::u8, {kOut, 96 / 32}, {}, false, 0, 252}},
                  {.method = "compressed-tensors"}),
            BlockType::mxfp4);
}

// Rows are columns of the experts' matrices.
TEST_F(QuantizedBlocks, OfExpertsInMxfp4) {
  constexpr std::int64_t kExperts = 3, kIn = 64;
  write({{"x_blocks", DType::u8, {kExperts, kOut, kIn / 32, 16}},
         {"x_scales", DType::u8, {kExperts, kOut, kIn / 32}, {}, false, 0, 252}});
  const auto source =
      unpacked(open_tensors(scratch_.path("model.safetensors")), {.method = "mxfp4"}, DType::f32);
  const PackedWeight& weight = *dynamic_cast<const PackedTensors&>(*source).find_packed("x");
  ASSERT_EQ(weight.block, BlockType::mxfp4);
  EXPECT_TRUE(weight.of_columns);
  const std::int64_t rows = kExperts * kOut;
  const std::vector<BlockType> types(static_cast<std::size_t>(rows), BlockType::mxfp4);
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(PackedRows::bytes(types, kIn)));
  PackedRows::lay_out(packed.data(), types, kIn);
  const PackedRows::Run run = PackedRows(packed.data()).runs()[0];
  const std::int64_t bytes = PackedRows(packed.data()).row_bytes(run), cut = kOut + 5;
  weight.blocks(0, cut, packed.data() + run.offset);
  weight.blocks(cut, rows, packed.data() + run.offset + cut * bytes);
  std::vector<float> numbers(static_cast<std::size_t>(rows * kIn));
  cpu::unpack_rows(numbers.data(), packed.data());
  const HostTensor expected(DType::f32, weight.shape);
  source->read_original("x", {0, 0, 0}, expected.view());
  for (std::int64_t e = 0; e < kExperts; ++e)
    for (std::int64_t i = 0; i < kIn; ++i)
      for (std::int64_t o = 0; o < kOut; ++o)
        ASSERT_EQ(numbers[static_cast<std::size_t>((e * kOut + o) * kIn + i)],
                  expected.view().as<float>()[(e * kIn + i) * kOut + o]);
}

TEST_F(QuantizedBlocks, WhatIsNotFiniteIsRefused) {
  const auto expect_refused = [&](const std::vector<Stored>& tensors, const Quantization& q,
                                  std::string_view why) {
    const std::string error = error_of([&] { block(tensors, q); });
    EXPECT_TRUE(error.ends_with(why)) << error;
  };
  const auto of_eight_bits = [&](DType dtype, bool code, bool scale) {
    expect_refused({{"x.weight", dtype, {kOut, 256}, {}, code},
                    {"x.weight_scale", DType::f32, {kOut, 1}, {}, scale}},
                   {.method = "compressed-tensors"},
                   ": tensor x.weight: row 23 has a number that is not finite");
  };
  of_eight_bits(DType::f8, true, false);
  of_eight_bits(DType::f8, false, true);
  of_eight_bits(DType::i8, false, true);
  for (const DType scales : {DType::f16, DType::bf16})
    expect_refused({{"x.qweight", DType::i32, {256, kOut / 8}},
                    {"x.qzeros", DType::i32, {2, kOut / 8}},
                    {"x.scales", scales, {2, kOut}, {}, true}},
                   {.method = "awq"}, ": a scale of row 23 is no finite number");
  expect_refused({{"x.weight_packed", DType::u8, {kOut, 64}},
                  {"x.weight_scale", DType::f8, {kOut, 8}, {}, true},
                  {"x.weight_scale_2", DType::f32, {1}, {}, false, 1}},
                 {.method = "modelopt"},
                 ": tensor x.weight_scale: row 23 has a number that is not finite");
  expect_refused({{"x.weight_packed", DType::u8, {kOut, 64}},
                  {"x.weight_scale", DType::u8, {kOut, 4}, {}, true, 0, 252}},
                 {.method = "modelopt"},
                 ": tensor x.weight_packed: row 23 has a number that is not finite");
}

}  // namespace
}  // namespace mt
