// gpt-oss's experts in MXFP4: the numbers that they stand for.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

struct Mxfp4 : Convert {
  // Two experts of 32 x 3, in blocks of 32.
  static constexpr std::int64_t kExperts = 2, kColumns = 3, kIn = 64;

  static std::uint8_t block_byte(std::int64_t i) { return static_cast<std::uint8_t>(i * 37 % 251); }
  static std::uint8_t scale_byte(std::int64_t i) { return static_cast<std::uint8_t>(120 + i % 9); }

  void write(const Shape& blocks, const Shape& scales, bool beside = false) {
    std::vector<SafetensorsWriter::Entry> entries{{"w_blocks", DType::u8, blocks},
                                                  {"w_scales", DType::u8, scales}};
    if (beside) entries.push_back({"w", DType::u8, {1}});
    SafetensorsWriter writer(scratch_.path(""), entries, "model.safetensors");
    const auto fill = [&](const char* name, const Shape& shape, const auto& byte) {
      const HostTensor tensor(DType::u8, shape);
      for (std::int64_t i = 0; i < shape.numel(); ++i)
        static_cast<std::uint8_t*>(tensor.view().data())[i] = byte(i);
      writer.write(name, tensor.view());
    };
    fill("w_blocks", blocks, block_byte);
    fill("w_scales", scales, scale_byte);
    if (beside) fill("w", {1}, block_byte);
    writer.close();
  }
  std::unique_ptr<TensorSource> opened() {
    return unpacked(open_tensors(scratch_.path("model.safetensors")), {.method = "mxfp4"},
                    DType::bf16);
  }

  static float expected(std::int64_t expert, std::int64_t in, std::int64_t column) {
    constexpr float kNumbers[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    const std::int64_t i = (expert * kColumns + column) * kIn + in;
    const int bits = block_byte(i / 2) >> (i % 2 * 4) & 15;
    const float number = kNumbers[bits % 8] * std::exp2(float(scale_byte(i / 32)) - 127);
    return bits >= 8 ? -number : number;
  }
};

TEST_F(Mxfp4, AreTheNumbersThatTheyStandFor) {
  write({kExperts, kColumns, kIn / 32, 16}, {kExperts, kColumns, kIn / 32});
  const auto tensors = opened();
  EXPECT_EQ(tensors->tensors().size(), 1U);
  EXPECT_EQ(tensors->at("w").shape, (Shape{kExperts, kIn, kColumns}));
  EXPECT_EQ(tensors->at("w").dtype, DType::bf16);
  const HostTensor all(DType::f32, {kExperts, kIn, kColumns}), part(DType::f32, {1, 40, 2});
  tensors->read_original("w", {0, 0, 0}, all.view());
  for (std::int64_t i = 0; i < all.view().numel(); ++i)
    EXPECT_EQ(all.view().as<float>()[i],
              expected(i / (kIn * kColumns), i / kColumns % kIn, i % kColumns));
  tensors->read_original("w", {1, 20, 1}, part.view());
  for (std::int64_t i = 0; i < 80; ++i)
    EXPECT_EQ(part.view().as<float>()[i], expected(1, 20 + i / 2, 1 + i % 2));
}

TEST_F(Mxfp4, WhatDoesNotBelongTogetherIsNamed) {
  const auto refusal = [&](const Shape& blocks, const Shape& scales, bool beside = false) {
    write(blocks, scales, beside);
    const std::string error = error_of([&] { opened(); });
    return error.substr(error.find("model.safetensors: ") + 19);
  };
  EXPECT_EQ(refusal({2, 3, 2, 8}, {2, 3, 2}),
            "tensor w_blocks is [2, 3, 2, 8], expected [experts, out, in / 32, 16]");
  EXPECT_EQ(refusal({2, 3, 2, 16}, {2, 3, 1}),
            "tensor w_scales is uint8 [2, 3, 1], expected uint8 [2, 3, 2]");
  EXPECT_EQ(refusal({2, 3, 2, 16}, {2, 3, 2}, true), "has w and w_blocks");
}

}  // namespace
}  // namespace mt
