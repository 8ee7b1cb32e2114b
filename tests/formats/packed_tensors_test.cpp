// Weights in eight bits and fewer, as folders hold them: the numbers that they stand for.
#include <gtest/gtest.h>

#include <cmath>

#include "base/half.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"
#include "formats/hugging_face/weight_quantizer.h"
#include "kernels/packed_rows.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

struct Quantized : Convert {
  struct Stored {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<double> values;  // of whole numbers or floats; of f8 its bits
  };
  void write(const std::vector<Stored>& tensors) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const Stored& t : tensors) entries.push_back({t.name, t.dtype, t.shape});
    SafetensorsWriter writer(scratch_.path(""), entries, "model.safetensors");
    for (const Stored& t : tensors) {
      const HostTensor tensor(t.dtype, t.shape);
      void* const data = tensor.view().data();
      for (std::size_t i = 0; i < t.values.size(); ++i) {
        const double x = t.values[i];
        if (t.dtype == DType::f32) static_cast<float*>(data)[i] = static_cast<float>(x);
        if (t.dtype == DType::i64) static_cast<std::int64_t*>(data)[i] = std::int64_t(x);
        if (t.dtype == DType::i32) {
          const auto word = static_cast<std::uint32_t>(x);
          std::memcpy(static_cast<std::uint32_t*>(data) + i, &word, 4);
        }
        if (size_of(t.dtype) == 1)
          static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(std::int64_t(x));
      }
      writer.write(t.name, tensor.view());
    }
    writer.close();
  }
  std::unique_ptr<TensorSource> opened(const Quantization& q) {
    return unpacked(open_tensors(scratch_.path("model.safetensors")), q, DType::f32);
  }
  std::vector<float> weight(const Quantization& q) {
    const auto tensors = opened(q);
    EXPECT_EQ(tensors->tensors().size(), 1U);
    const Shape shape = tensors->at("x.weight").shape;
    const HostTensor all(DType::f32, shape), part(DType::f32, {1, shape[1] - 1});
    tensors->read_original("x.weight", {0, 0}, all.view());
    const float* const whole = all.view().as<float>();
    const std::int64_t last = shape[0] - 1;
    tensors->read_original("x.weight", {last, 1}, part.view());
    for (std::int64_t i = 0; i + 1 < shape[1]; ++i)
      EXPECT_EQ(part.view().as<float>()[i], whole[last * shape[1] + 1 + i]);
    return {whole, whole + shape.numel()};
  }
  std::string refusal(const std::vector<Stored>& tensors, const Quantization& q) {
    write(tensors);
    const std::string error = error_of([&] { opened(q); });
    EXPECT_TRUE(error.starts_with("65 ")) << error;
    return error.substr(error.find("model.safetensors: ") + 19);
  }
};

using Floats = std::vector<float>;

TEST_F(Quantized, BlocksOfEightBits) {
  // 1.0 is 0x38, -448 0xFE, 0.0175 0x09.
  write({{"x.weight", DType::f8, {3, 3}, {0x38, 0xFE, 0x09, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38}},
         {"x.weight_scale_inv", DType::f32, {2, 2}, {2, 3, 4, 5}},
         {"x.activation_scale", DType::f32, {1}, {9}}});
  EXPECT_EQ(weight({.method = "fp8", .block = {2, 2}}),
            (Floats{2, -896, 3 * 0.017578125F, 2, 2, 3, 4, 4, 5}));
}

// Powers of two by their bits, of which 255 is none.
TEST_F(Quantized, ScalesOfPowersOfTwo) {
  const std::vector<double> ones(4, 0x38);
  write(
      {{"x.weight", DType::f8, {2, 2}, ones}, {"x.weight_scale_inv", DType::u8, {1, 2}, {130, 0}}});
  EXPECT_EQ(weight({.method = "fp8", .block = {2, 1}}), (Floats{8, 0x1p-127F, 8, 0x1p-127F}));
  write({{"x.weight", DType::f8, {1, 2}, {0x38, 0x38}}, {"x.weight_scale", DType::u8, {1}, {255}}});
  const auto tensors = opened({.method = "compressed-tensors"});
  const HostTensor all(DType::f32, {1, 2});
  tensors->read_original("x.weight", {0, 0}, all.view());
  EXPECT_TRUE(std::isnan(all.view().as<float>()[0]));
}

TEST_F(Quantized, ScalesOfRowsAndGroupsAndZeros) {
  const Stored ints{"x.weight", DType::i8, {2, 4}, {1, -2, 3, 127, -128, 0, 5, 6}};
  write({ints, {"x.weight_scale", DType::f32, {2, 1}, {.5, 2}}});
  EXPECT_EQ(weight({.method = "modelopt"}), (Floats{.5, -1, 1.5, 63.5, -256, 0, 10, 12}));
  write({ints,
         {"x.weight_scale", DType::f32, {2, 2}, {1, 2, 3, 4}},
         {"x.pre_quant_scale", DType::f32, {4}, {1, 1, 1, 10}},
         {"x.input_scale", DType::f32, {}, {3}}});
  EXPECT_EQ(weight({.method = "modelopt"}), (Floats{1, -2, 6, 2540, -384, 0, 20, 240}));
  write({ints,
         {"x.weight_scale", DType::f32, {1}, {1}},
         {"x.weight_zero_point", DType::i8, {1}, {1}}});
  EXPECT_EQ(weight({.method = "compressed-tensors"}), (Floats{0, -3, 2, 126, -129, -1, 4, 5}));
}

// Columns 0 to 7 with the values 0 to 7 are the word 0x75316420.
TEST_F(Quantized, WordsOfAwq) {
  write({{"x.qweight", DType::i32, {2, 1}, {0x75316420, 0x11111111}},
         {"x.qzeros", DType::i32, {1, 1}, {0x11111111}},
         {"x.scales", DType::f32, {1, 8}, {2, 2, 2, 2, 2, 2, 2, 4}}});
  EXPECT_EQ(weight({.method = "awq"}), (Floats{-2, 0, 0, 0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0, 24, 0}));
}

TEST_F(Quantized, WordsOfGptq) {
  const std::vector<Stored> stored{
      {"x.qweight", DType::i32, {1, 8}, {0x76543210, 0, 0, 0, 0, 0, 0, 0}},
      {"x.qzeros", DType::i32, {2, 1}, {0x00000007, 0x00000000}},
      {"x.scales",
       DType::f32,
       {2, 8},
       {1, 1, 1, 1, 1, 1, 1, 1,  //
        2, 1, 1, 1, 1, 1, 1, 1}},
      {"x.g_idx", DType::i32, {8}, {0, 1, 0, 1, 0, 0, 0, 0}}};
  write(stored);
  const auto first = [&](bool less) {
    const Floats all = weight({.method = "gptq", .bits = {4}, .zeros_less_one = less});
    return Floats(all.begin(), all.begin() + 8);
  };
  EXPECT_EQ(first(true), (Floats{-8, 0, -6, 4, -4, -3, -2, -1}));
  EXPECT_EQ(first(false), (Floats{-7, 2, -5, 6, -3, -2, -1, 0}));
}

// The elements -8 -7 -1 0 1 2 7 3 are the word 0xBFA98710, and 5 -2 4 6 -3 -4 -5 -6 are 0x2345EC6D.
TEST_F(Quantized, WordsOfCompressedTensors) {
  const Stored words{"x.weight_packed", DType::i32, {1, 2}, {0xBFA98710, 0x2345EC6D}},
      shape{"x.weight_shape", DType::i64, {2}, {1, 16}},
      scale{"x.weight_scale", DType::f32, {1, 2}, {1, 2}};
  write({words, shape, scale});
  EXPECT_EQ(weight({.method = "compressed-tensors", .bits = {4}}),
            (Floats{-8, -7, -1, 0, 1, 2, 7, 3, 10, -4, 8, 12, -6, -8, -10, -12}));
  write({words, shape, scale, {"x.weight_zero_point", DType::i32, {1, 2}, {0x9, 0x8}}});
  EXPECT_EQ(weight({.method = "compressed-tensors", .bits = {4, 8}}),
            (Floats{-9, -8, -2, -1, 0, 1, 6, 2, 10, -4, 8, 12, -6, -8, -10, -12}));
}

// What the settings say that every matrix has is not done without.
TEST_F(Quantized, WhatIsSaidMustBeThere) {
  const auto read = [](const std::string& weights) {
    return read_quantization(concat(R"({"quant_method":"compressed-tensors","format":"pack-)",
                                    R"(quantized","config_groups":{)", weights, "}}"),
                             "config.json");
  };
  const std::string four = R"("weights":{"num_bits":4,"type":"int","symmetric":)";
  const auto refusal = [&](const Quantization& q) {
    const std::string error = error_of([&] { opened(q); });
    return error.substr(std::min(error.size(), error.find("model.safetensors: ")));
  };
  const Stored words{"x.weight_packed", DType::i32, {1, 2}, {0xBFA98710, 0x2345EC6D}},
      shape{"x.weight_shape", DType::i64, {2}, {1, 16}},
      scale{"x.weight_scale", DType::f32, {1, 2}, {1, 2}};
  write({words, shape, scale});
  const std::string none = "model.safetensors: has no tensor x.weight_";
  EXPECT_EQ(refusal(read("\"a\":{" + four + "true}}")), "");
  EXPECT_EQ(refusal(read("\"a\":{" + four + "false}}")), none + "zero_point");
  EXPECT_EQ(refusal(read("\"a\":{" + four + "true,\"actorder\":\"group\"}}")), none + "g_idx");
  EXPECT_EQ(refusal(read("\"a\":{" + four + "true,\"actorder\":\"weight\"}}")), "");
  // Of two groups the matrix may be in either.
  EXPECT_EQ(refusal(read("\"a\":{" + four + "true}},\"b\":{" + four + "false}}")), "");
  write({{"x.weight", DType::i8, {1, 2}, {1, 2}}, {"x.weight_scale", DType::f32, {1}, {1}}});
  EXPECT_EQ(refusal(read("\"a\":{" + four + "false}}")), none + "zero_point");
  write({{"x.qweight", DType::i32, {1, 8}, {}},
         {"x.qzeros", DType::i32, {1, 1}, {}},
         {"x.scales", DType::f32, {1, 8}, {}}});
  EXPECT_EQ(refusal({.method = "gptq", .bits = {4}}), "");
  EXPECT_EQ(refusal({.method = "gptq", .bits = {4}, .ordered = true}),
            "model.safetensors: has no tensor x.g_idx");
  const std::string groups =
      "model.safetensors: tensor x.scales has 1 groups of 8 inputs, but "
      "quantization_config says group_size ";
  for (const std::int64_t size : {0, 8, 128})
    EXPECT_EQ(refusal({.method = "gptq", .bits = {4}, .groups = {size}}), "");
  EXPECT_EQ(refusal({.method = "gptq", .bits = {4}, .groups = {4}}), groups + "4");
  EXPECT_EQ(refusal({.method = "gptq", .bits = {4}, .groups = {4, 8}}), "");
  const auto size = [](const char* text) {
    return error_of([&] {
      read_quantization(concat(R"({"quant_method":"awq","bits":4,"group_size":)", text, "}"), "x");
    });
  };
  EXPECT_EQ(size("-1"), "");
  for (const char* text : {"0", "-2", "1.5", "1e300"})
    EXPECT_EQ(size(text), "65 x: group_size: expected -1, or a number from 1 to 1073741824");
}

// Extents that words cannot hold, of other types, or of words of either width; scales that are
// none.
TEST_F(Quantized, ShapesThatWordsDoNotHold) {
  const Stored words{"x.weight_packed", DType::i32, {1, 1}, {0}},
      scale{"x.weight_scale", DType::f32, {1, 1}, {1}};
  const auto refusal = [&](const Stored& shape, const std::vector<int>& bits) {
    write({words, shape, scale});
    const std::string error =
        error_of([&] { opened({.method = "compressed-tensors", .bits = bits}); });
    return error.substr(std::min(error.size(), error.find("tensor ")));
  };
  const auto of = [](double out, double in) {
    return Stored{"x.weight_shape", DType::i64, {2}, {out, in}};
  };
  EXPECT_EQ(refusal(of(1, 8), {4}), "");
  const std::string does_not =
      "tensor x.weight_packed is [1, 1], which does not hold the matrix of ";
  for (const auto& [out, in] :
       {std::pair(1.0, 0x1p62), {0x1p62, 8.0}, {1.0, -8.0}, {-1.0, 8.0}, {1.0, 9.0}, {1.0, 0.0}})
    EXPECT_EQ(refusal(of(out, in), {4}),
              concat(does_not, "[", static_cast<std::int64_t>(out), ", ",
                     static_cast<std::int64_t>(in), "] of x.weight_shape"));
  EXPECT_EQ(refusal(of(1, 8), {8}), does_not + "[1, 8] of x.weight_shape");
  EXPECT_EQ(refusal(of(1, 4), {4, 8}),
            "tensor x.weight_packed is [1, 1], which may hold numbers of several widths of the "
            "matrix of [1, 4] of x.weight_shape");
  EXPECT_EQ(refusal(of(1, 4), {4, 4}), "");
  EXPECT_EQ(refusal({"x.weight_shape", DType::i32, {2}, {1, 8}}, {4}), "");
  EXPECT_EQ(refusal({"x.weight_shape", DType::f32, {2}, {1, 8}}, {4}),
            "tensor x.weight_shape is float32, expected int64");
  write({words, of(1, 8), {"x.weight_scale", DType::i32, {1, 1}, {1}}});
  EXPECT_NE(error_of([&] {
              opened({.method = "compressed-tensors", .bits = {4}});
            }).find("tensor x.weight_scale is int32, expected a floating-point type"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              read_quantization(
                  R"({"quant_method":"fp8","weight_block_size":[128,9223372036854775807]})", "x");
            }).find("weight_block_size: expected two sizes"),
            std::string::npos);
}

TEST_F(Quantized, BytesOfTwo) {
  // Sixteen numbers of E2M1 times 2 (0x40) times a half.
  const std::vector<double> codes{0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
  const Floats numbers{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6};
  write({{"x.weight", DType::u8, {1, 8}, codes},
         {"x.weight_scale", DType::f8, {1, 1}, {0x40}},
         {"x.weight_scale_2", DType::f32, {}, {.5}}});
  EXPECT_EQ(weight({.method = "modelopt"}), numbers);
  write({{"x.weight_packed", DType::u8, {1, 8}, codes},
         {"x.weight_scale", DType::f8, {1, 1}, {0x40}},
         {"x.weight_global_scale", DType::f32, {1}, {2}}});
  EXPECT_EQ(weight({.method = "compressed-tensors"}), numbers);
  std::vector<double> wide(16, 0);
  std::ranges::copy(codes, wide.begin());
  for (const char* const name : {"x.weight", "x.weight_packed"}) {
    write({{name, DType::u8, {1, 16}, wide}, {"x.weight_scale", DType::u8, {1, 1}, {128}}});
    Floats doubled = numbers;
    for (float& x : doubled) x *= 2;
    doubled.resize(32);
    EXPECT_EQ(weight({.method = "compressed-tensors"}), doubled);
  }
  write({{"x.weight", DType::u8, {1, 2}, {0x8F, 0x17}},
         {"x.weight_scale", DType::f32, {2, 1}, {1, 2}},
         {"x.pre_quant_scale", DType::f32, {2}, {1, 3}}});
  EXPECT_EQ(weight({.method = "modelopt"}), (Floats{-1, 21, -16, 6}));
}

// The scale 255 of E8M0 is NaN, and 254 the largest.
TEST_F(Quantized, PowersOfTwoHaveOneThatIsNoNumber) {
  std::vector<double> ones(16, 0x22);
  for (const double scale : {254, 255}) {
    const auto expect_all = [&](const std::string& method) {
      const auto tensors = opened({.method = method});
      const HostTensor all(DType::f32, tensors->at("x.weight").shape);
      tensors->read_original("x.weight", origin_of(all.view().shape().rank()), all.view());
      ASSERT_EQ(all.view().numel(), 32);
      for (const float x : all.span<float>()) {
        EXPECT_TRUE(scale == 255 ? std::isnan(x) : x == 0x1p127F) << method << " " << x;
      }
    };
    write({{"x.weight_packed", DType::u8, {1, 16}, ones},
           {"x.weight_scale", DType::u8, {1, 1}, {scale}}});
    expect_all("compressed-tensors");
    write({{"x.weight_blocks", DType::u8, {1, 1, 1, 16}, ones},
           {"x.weight_scales", DType::u8, {1, 1, 1}, {scale}}});
    expect_all("mxfp4");
  }
}

struct Bitsandbytes : Quantized {
  static Stored state(const std::string& json, const char* kind = "nf4") {
    return {std::string("x.weight.quant_state.bitsandbytes__") + kind,
            DType::u8,
            {std::ssize(json)},
            {json.begin(), json.end()}};
  }
  static constexpr const char* kPlain = R"({"blocksize": 4, "shape": [3, 2], "dtype": "bfloat16"})";
  // The numbers that bits stand for are 0, 10, ..., 150.
  static Stored map() {
    std::vector<double> numbers;
    for (int i = 0; i < 16; ++i) numbers.push_back(10 * i);
    return {"x.weight.quant_map", DType::f32, {16}, numbers};
  }
  static Stored codes() { return {"x.weight", DType::u8, {3, 1}, {0x12, 0x34, 0x5F}}; }
  static inline const Quantization kMethod{.method = "bitsandbytes"};
};

TEST_F(Bitsandbytes, FourBitsWithScalesOfBlocks) {
  const Stored scales{"x.weight.absmax", DType::f32, {2}, {1, .5}};
  for (const Shape& shape : {Shape{3, 1}, {1, 3}}) {
    Stored bytes = codes();
    bytes.shape = shape;
    write({bytes, map(), scales, state(kPlain)});
    EXPECT_EQ(weight(kMethod), (Floats{10, 20, 30, 40, 25, 75}));
  }
  write({codes(), map(), scales, state(R"({"blocksize": 4, "shape": [1, 6]})", "fp4")});
  EXPECT_EQ(weight(kMethod), (Floats{10, 20, 30, 40, 25, 75}));
}

TEST_F(Bitsandbytes, ScalesMayBeInEightBits) {
  std::vector<double> numbers(256, 0);
  numbers[7] = 1, numbers[255] = -2;
  write(
      {codes(),
       map(),
       {"x.weight.absmax", DType::u8, {2}, {7, 255}},
       {"x.weight.nested_quant_map", DType::f32, {256}, numbers},
       {"x.weight.nested_absmax", DType::f32, {2}, {.5, .25}},
       state(R"({"blocksize": 4, "shape": [3, 2], "nested_blocksize": 1, "nested_offset": 2.5})")});
  EXPECT_EQ(weight(kMethod), (Floats{30, 60, 90, 120, 100, 300}));  // 1 .5 + 2.5, -2 .25 + 2.5
}

TEST_F(Bitsandbytes, EightBitsWithScalesOfRows) {
  const Stored ints{"x.weight", DType::i8, {2, 2}, {127, -127, 1, 0}},
      rows{"x.SCB", DType::f32, {2}, {2, 127}};
  for (const double format : {0, 1}) {
    const std::vector<Stored> stored{ints, rows, {"x.weight_format", DType::u8, {}, {format}}};
    if (format == 0) {
      write(stored);
      const Floats found = weight(kMethod);
      EXPECT_FLOAT_EQ(found[0], 2);
      EXPECT_FLOAT_EQ(found[1], -2);
      EXPECT_FLOAT_EQ(found[2], 1);
      EXPECT_EQ(found[3], 0);
    } else {
      EXPECT_EQ(refusal(stored, kMethod),
                "tensor x.weight_format: expected 0, whose rows lie one behind another");
    }
  }
}

TEST_F(Bitsandbytes, WhatDoesNotBelongTogetherIsNamed) {
  const Stored scales{"x.weight.absmax", DType::f32, {2}, {1, .5}};
  const auto refused = [&](const std::string& json) {
    const std::string error = refusal({codes(), map(), scales, state(json)}, kMethod);
    return error.substr(std::min(error.size(), error.find("nf4: ") + 5));
  };
  EXPECT_EQ(refusal({codes(), map(), state(kPlain)}, kMethod), "has no tensor x.weight.absmax");
  EXPECT_EQ(refusal({codes(), scales, state(kPlain)}, kMethod), "has no tensor x.weight.quant_map");
  EXPECT_EQ(refusal({map(), scales, state(kPlain)}, kMethod), "has no tensor x.weight");
  EXPECT_EQ(
      refusal({codes(), map(), {"x.weight.absmax", DType::f32, {3}, {1, 1, 1}}, state(kPlain)},
              kMethod),
      "tensor x.weight.absmax is [3], expected [2]");
  EXPECT_EQ(
      refusal({codes(), map(), scales, state(R"({"blocksize": 4, "shape": [3, 4]})")}, kMethod),
      "tensor x.weight is [3, 1], expected 6 bytes for [3, 4]");
  for (const char* json : {"{", "[]", R"({"blocksize": 4})", R"({"blocksize": 4, "shape": []})",
                           R"({"blocksize": 0, "shape": [3, 2]})", R"({"shape": [3, 2]})",
                           R"({"blocksize": 4, "shape": [3, -2]})",
                           R"({"blocksize": 4, "shape": [9999999999, 9999999999]})",
                           R"({"blocksize": 4, "shape": [3, 2], "nested_offset": "x"})"})
    EXPECT_NE(refused(json), "") << json;
}

TEST_F(Quantized, WhatDoesNotBelongTogetherIsNamed) {
  const Stored eight{"x.weight", DType::f8, {2, 4}, std::vector<double>(8, 0x38)};
  EXPECT_EQ(refusal({eight}, {.method = "fp8"}), "has no tensor x.weight_scale");
  EXPECT_EQ(refusal({eight, {"x.weight_scale", DType::f32, {3}, {1, 1, 1}}}, {.method = "fp8"}),
            "tensor x.weight_scale is [3], which does not scale x.weight of [2, 4] in blocks of "
            "[128, 128]");
  EXPECT_EQ(refusal({{"x.weight", DType::f8, {2, 1, 1}, {1, 1}}}, {.method = "fp8"}),
            "tensor x.weight is float8_e4m3fn [2, 1, 1], expected a matrix");
  const Stored words{"x.qweight", DType::i32, {8, 1}, std::vector<double>(8, 0)},
      scales{"x.scales", DType::f32, {1, 8}, std::vector<double>(8, 1)};
  EXPECT_EQ(refusal({words, scales}, {.method = "awq"}), "has no tensor x.qzeros");
  EXPECT_EQ(refusal({words, scales, {"x.qzeros", DType::i32, {2, 1}, {0, 0}}}, {.method = "awq"}),
            "tensor x.qzeros is [2, 1], expected [1, 1]");
  EXPECT_EQ(refusal({{"x.qweight", DType::i32, {1, 8}, std::vector<double>(8, 0)},
                     scales,
                     {"x.qzeros", DType::i32, {1, 1}, {0}},
                     {"x.g_idx", DType::i32, {8}, {0, 0, 0, 0, 0, 0, 0, 1}}},
                    {.method = "gptq", .bits = {4}}),
            "tensor x.g_idx says group 1, but x.scales has 1");
  const Stored pairs{"x.weight_packed", DType::u8, {1, 16}, std::vector<double>(16, 0)};
  const Quantization compressed{.method = "compressed-tensors"};
  EXPECT_EQ(refusal({pairs}, compressed), "has no tensor x.weight_scale");
  EXPECT_EQ(refusal({pairs, {"x.weight_scale", DType::u8, {1, 2}, {0, 0}}}, compressed),
            "tensor x.weight_scale is [1, 2], expected [1, 1]");
  EXPECT_EQ(refusal({pairs, {"x.weight_scale", DType::f8, {1, 2}, {0, 0}}}, compressed),
            "has no tensor x.weight_scale_2");
  EXPECT_EQ(refusal({pairs,
                     {"x.weight_scale", DType::i8, {1, 2}, {0, 0}},
                     {"x.weight_global_scale", DType::f32, {1}, {1}}},
                    compressed),
            "tensor x.weight_scale is int8, expected a floating-point type");
  EXPECT_EQ(refusal({pairs,
                     {"x.weight_scale", DType::f8, {1, 2}, {0, 0}},
                     {"x.weight_global_scale", DType::f32, {1}, {0}}},
                    compressed),
            "tensor x.weight_global_scale is 0, which scales nothing");
  EXPECT_EQ(refusal({eight, {"x.weight_scale", DType::i32, {1}, {1}}}, {.method = "fp8"}),
            "tensor x.weight_scale is int32, expected a floating-point type");
  EXPECT_EQ(refusal({{"x.weight_packed", DType::u8, {1, 12}, {0}},
                     {"x.weight_scale", DType::u8, {1, 1}, {0}}},
                    compressed),
            "tensor x.weight_packed is [1, 12], whose rows are no groups of 32");
  EXPECT_EQ(refusal({pairs,
                     {"x.weight_scale", DType::f8, {1, 2}, {0, 0}},
                     {"x.weight_global_scale", DType::f32, {2}, {1, 1}}},
                    compressed),
            "tensor x.weight_global_scale is [2], expected [1]");
  EXPECT_EQ(refusal({{"x.weight_packed", DType::i32, {1, 3}, {0, 0, 0}},
                     {"x.weight_shape", DType::i64, {2}, {1, 16}},
                     {"x.weight_scale", DType::f32, {1, 1}, {1}}},
                    {.method = "compressed-tensors", .bits = {4}}),
            "tensor x.weight_packed is [1, 3], which does not hold the matrix of [1, 16] of "
            "x.weight_shape");
}

// Whatever is cut off or changed of a file, it is read, or refused in a line that names it.
TEST_F(Quantized, FilesThatAreCutOrChangedAreReadOrRefused) {
  const HostTensor matrix(DType::bf16, {2, 128});
  for (std::int64_t i = 0; i < 256; ++i)
    static_cast<Bf16*>(matrix.view().data())[i] = Bf16(static_cast<float>(i * 37 % 101 - 50));
  const std::string path = scratch_.path("model.safetensors");
  std::map<bool, int> counts;
  int in_blocks = 0;
  for (const auto& scheme :
       {WeightScheme{.format = WeightFormat::fp8, .static_inputs = true},
        {.format = WeightFormat::int8_sq},
        {.format = WeightFormat::w4a8_awq},
        {.format = WeightFormat::nvfp4, .static_inputs = true},
        {.format = WeightFormat::nvfp4, .static_inputs = true, .modelopt = true},
        {.format = WeightFormat::mxfp4}}) {
    const QuantizedMatrix made(scheme, "x.weight", matrix, {.weights = 50, .inputs = 1});
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto& [key, tensor] : made.tensors())
      entries.push_back({key, *tensor.dtype, tensor.shape});
    SafetensorsWriter writer(scratch_.path(""), entries, "model.safetensors");
    for (const auto& [key, tensor] : made.tensors()) writer.write(key, made.value(key));
    writer.close();
    const std::string whole = read_regular_file(path);
    const Quantization q = read_quantization(quantization_config(scheme), "config.json");
    const auto try_with = [&](const std::string& content) {
      write_file_atomically(path, content, true);
      const std::string error = error_of([&] {
        const auto tensors = opened(q);
        for (const auto& [key, tensor] : tensors->tensors()) {
          const HostTensor all(DType::f32, tensor.shape);
          tensors->read_original(key, origin_of(tensor.shape.rank()), all.view());
          const PackedWeight* const weight =
              dynamic_cast<const PackedTensors&>(*tensors).find_packed(key);
          if (weight == nullptr || !weight->block) continue;
          const std::int64_t bytes = PackedRows::row_bytes(*weight->block, weight->shape[1]);
          std::vector<std::uint8_t> blocks(static_cast<std::size_t>(weight->shape[0] * bytes));
          weight->blocks(0, weight->shape[0], blocks.data());
          ++in_blocks;
        }
      });
      ++counts[error.empty()];
      EXPECT_TRUE(error.empty() || error.starts_with("65 ")) << error;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    };
    for (std::size_t length = 0; length < whole.size(); length += 7)
      try_with(whole.substr(0, length));
    const std::size_t header = whole.find("}}");
    for (std::size_t i = 0; i < header; ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ 1 << i % 8);
      try_with(changed);
    }
  }
  EXPECT_GT(counts[false], 1000);
  EXPECT_GT(counts[true], 10);  // names of tensors that no weight is of
  EXPECT_GT(in_blocks, 10);
}

}  // namespace
}  // namespace mt
