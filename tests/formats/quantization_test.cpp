// Weights that become eight bits and fewer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ckpt/torch_file.h"
#include "formats/awq.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"
#include "formats/hugging_face/weight_quantizer.h"
#include "formats/smoothing.h"
#include "model/model_table.h"
#include "model/pass.h"
#include "tensor/device.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

using Floats = std::vector<float>;

std::vector<int> codes_of(const QuantizedMatrix& made, const std::string& key) {
  const auto* const codes = static_cast<const std::uint8_t*>(made.value(key).data());
  return {codes, codes + made.value(key).bytes()};
}

void copy_numbers(ConstTensor from, Tensor out) {
  dense(from.dtype(), from.shape(), {static_cast<const std::byte*>(from.data()), from.bytes()})
      .copy_to(origin_of(from.shape().rank()), out);
}

TEST(WeightQuantizer, RowsOfEightBits) {
  const HostTensor matrix(DType::f32, {3, 4});
  const double values[] = {448, 1, .1, -17, 0, 0, 0, 0, 896, 2, .2, -34};
  fill_with(matrix, [&](std::int64_t i) { return values[i]; });
  const QuantizedMatrix made({.format = WeightFormat::fp8}, "x.weight", matrix, {});
  EXPECT_EQ(codes_of(made, "x.weight"),
            (std::vector<int>{0x7E, 0x38, 0x1D, 0xD8, 0, 0, 0, 0, 0x7E, 0x38, 0x1D, 0xD8}));
  const auto* const scales = made.value("x.weight_scale").as<float>();
  EXPECT_EQ(made.at("x.weight_scale").shape, (Shape{3, 1}));
  EXPECT_EQ((Floats{scales, scales + 3}), (Floats{1, 1, 2}));
}

// Scales are rounded to the weights' type before anything is divided by them: of 1 / 448 the number
// .1025390625 would be 45.9, which is nearer to 44 (0x63) than to 48.
TEST(WeightQuantizer, ScalesOfTheWeightsType) {
  const HostTensor matrix(DType::bf16, {1, 2});
  auto* const numbers = static_cast<std::uint16_t*>(matrix.view().data());
  numbers[0] = 0x3F80, numbers[1] = 0x3DD2;
  const QuantizedMatrix made({.format = WeightFormat::fp8}, "x.weight", matrix, {});
  ASSERT_EQ(made.at("x.weight_scale").dtype, DType::bf16);
  EXPECT_EQ(*static_cast<const std::uint16_t*>(made.value("x.weight_scale").data()), 0x3B12);
  EXPECT_EQ(codes_of(made, "x.weight"), (std::vector<int>{0x7E, 0x64}));
}

// However small a row's weights are, and of whatever type.
TEST(WeightQuantizer, SmallRowsKeepTheirBits) {
  constexpr std::int64_t kRows = 7, kColumns = 128;
  for (const auto& [format, most] : {std::pair(WeightFormat::fp8, 1 / 16.0),
                                     {WeightFormat::fp8_block, 1 / 16.0},
                                     {WeightFormat::int8_sq, 1 / 255.0},
                                     {WeightFormat::int4_awq, 1 / 15.0},
                                     {WeightFormat::nvfp4, 1 / 5.0},
                                     {WeightFormat::mxfp4, 1 / 5.0}})
    for (const auto& [dtype, least] :
         {std::pair(DType::f16, -14), {DType::bf16, -110}, {DType::f32, -110}})
      for (std::int64_t row = 0; row < kRows; ++row) {
        SCOPED_TRACE(concat(static_cast<int>(format), " ", name_of(dtype), " ", row));
        const double largest = std::exp2(least * static_cast<double>(row) / (kRows - 1)) * 1.9;
        const HostTensor matrix(dtype, {1, kColumns}), numbers(DType::f32, {1, kColumns}),
            read(DType::f32, {1, kColumns});
        fill_with(numbers, [&](std::int64_t i) {
          return largest * static_cast<double>(i * 37 % kColumns) / (kColumns - 1);
        });
        const ConstTensor made = numbers;
        dense(DType::f32, made.shape(), {static_cast<const std::byte*>(made.data()), made.bytes()})
            .copy_to({0, 0}, matrix.view());
        const HostTensor back(dtype, {1, kColumns});
        round_to_format({.format = format}, "x.weight", back.view(), matrix,
                        {.weights = static_cast<float>(largest)});
        const ConstTensor rounded = back;
        dense(dtype, rounded.shape(),
              {static_cast<const std::byte*>(rounded.data()), rounded.bytes()})
            .copy_to({0, 0}, read.view());
        double furthest = 0;
        for (std::int64_t i = 0; i < kColumns; ++i)
          furthest = std::max<double>(
              furthest, std::fabs(read.view().as<float>()[i] - numbers.view().as<float>()[i]));
        EXPECT_LE(furthest / largest, most + 1 / 128.0);
        EXPECT_GT(furthest, 0);
      }
}

TEST(WeightQuantizer, BlocksOfEightBits) {
  const HostTensor matrix(DType::f32, {130, 129});
  fill_with(matrix, [&](std::int64_t i) {
    const std::int64_t row = i / 129, column = i % 129;
    return (row < 128 ? 448 : 4480) * (column < 128 ? 1 : .5);
  });
  const QuantizedMatrix made({.format = WeightFormat::fp8_block}, "x.weight", matrix, {});
  EXPECT_EQ(codes_of(made, "x.weight"), std::vector<int>(130 * 129, 0x7E));
  const auto* const scales = made.value("x.weight_scale_inv").as<float>();
  EXPECT_EQ((Floats{scales, scales + 4}), (Floats{1, .5, 10, 5}));
}

// Near a type's largest number, what is rounded away from zero would be infinite: to -128 of 127.5,
// to -8 of 7.5, to 8 of 7; and in bf16 a scale may be rounded so.
TEST(WeightQuantizer, NumbersThatWouldBeInfiniteAreRefused) {
  struct Case {
    WeightFormat format;
    DType dtype;
    double number;
    bool lost;
  };
  for (const auto& [format, dtype, number, lost] :
       {Case{WeightFormat::int8_sq, DType::f16, -65504, true},
        {WeightFormat::int8_sq, DType::f16, 65504, false},
        {WeightFormat::int8_sq, DType::f16, -65152, false},
        {WeightFormat::int4_awq, DType::f16, -65504, true},
        {WeightFormat::int4_awq, DType::f16, 65504, false},
        {WeightFormat::w4a8_awq, DType::f16, -65504, true},
        {WeightFormat::mxfp4, DType::f16, 57344, true},
        {WeightFormat::mxfp4, DType::f16, 57312, false},
        {WeightFormat::mxfp4, DType::f32, 0x1.cp127, true},
        {WeightFormat::nvfp4, DType::f16, 65504, false},
        {WeightFormat::fp8, DType::f16, -65504, false},
        {WeightFormat::fp8, DType::bf16, 0x1.fep127, true},
        {WeightFormat::fp8_block, DType::bf16, 0x1.fep127, false}}) {
    SCOPED_TRACE(concat(name_of(format), " ", name_of(dtype), " ", number));
    const HostTensor numbers(DType::f32, {1, 128}), matrix(dtype, {1, 128});
    *numbers.view().as<float>() = static_cast<float>(number);
    copy_numbers(numbers, matrix);
    const auto largest = static_cast<float>(std::fabs(number));
    const std::string error =
        error_of([&] { check_room({.format = format}, "x.weight", matrix, {.weights = largest}); });
    EXPECT_EQ(error, lost ? concat("78 --quantize ", name_of(format), ": x.weight has ", largest,
                                   " for its largest number, near which numbers are rounded to "
                                   "what ",
                                   name_of(dtype), " does not hold; see --dtype")
                          : "");
  }
}

// .7 of 7 is the scale .7 / 7.5 = .0933333; see WordsOfCompressedTensors for the words.
TEST(WeightQuantizer, GroupsOfFourBits) {
  const HostTensor matrix(DType::f32, {2, 256});
  const std::vector<double> first{.7, -.35, .1, 0}, second{5, -2, 4, 6, -3, -4, -5, -7.5};
  for (std::size_t i = 0; i < first.size(); ++i)
    matrix.view().as<float>()[i] = static_cast<float>(first[i]);
  for (std::size_t i = 0; i < second.size(); ++i)
    matrix.view().as<float>()[384 + i] = static_cast<float>(second[i]);
  const QuantizedMatrix made({.format = WeightFormat::int4_awq}, "x.weight", matrix, {});
  const auto* const scales = made.value("x.weight_scale").as<float>();
  EXPECT_EQ((Floats{scales, scales + 4}), (Floats{.7F / 7.5F, 1, 1, 1}));
  const auto* const words = made.value("x.weight_packed").as<std::int32_t>();
  EXPECT_EQ(made.at("x.weight_packed").shape, (Shape{2, 32}));
  EXPECT_EQ(static_cast<std::uint32_t>(words[0]), 0x8888894FU);  // 7 -4 1 0 0 ...
  EXPECT_EQ(static_cast<std::uint32_t>(words[1]), 0x88888888U);
  EXPECT_EQ(static_cast<std::uint32_t>(words[48]), 0x0345EC6DU);  // 5 -2 4 6 -3 -4 -5 -8
  const auto* const shape = made.value("x.weight_shape").as<std::int64_t>();
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[1], 256);
  EXPECT_EQ(
      error_of([&] {
        quantized_entries({.format = WeightFormat::int4_awq}, "x.weight", DType::f32, {2, 192});
      }),
      "78 --quantize int4_awq: x.weight has 192 columns, which groups of 128 do not divide");
}

TEST(WeightQuantizer, RowsOfWholeNumbers) {
  const HostTensor matrix(DType::f32, {1, 5});
  const double values[] = {.5, -1.25, 3, -7, .03};
  fill_with(matrix, [&](std::int64_t i) { return values[i]; });
  const QuantizedMatrix made({.format = WeightFormat::int8_sq}, "x.weight", matrix, {});
  EXPECT_EQ(codes_of(made, "x.weight"), (std::vector<int>{9, 256 - 23, 55, 128, 1}));
  EXPECT_EQ(made.at("x.weight_scale").shape, (Shape{1, 1}));
  EXPECT_EQ(*made.value("x.weight_scale").as<float>(), 7 / 127.5F);
}

// What q, k and v have together: the scale of the largest weight of all, and of what they read.
TEST(WeightQuantizer, EightBitsWithStaticInputs) {
  const HostTensor matrix(DType::f32, {1, 2});
  const double values[] = {448, -17};
  fill_with(matrix, [&](std::int64_t i) { return values[i]; });
  for (const bool modelopt : {false, true}) {
    const QuantizedMatrix made(
        {.format = WeightFormat::fp8, .static_inputs = true, .modelopt = modelopt}, "x.weight",
        matrix, {.weights = 896, .inputs = 1344});
    EXPECT_EQ(codes_of(made, "x.weight"), (std::vector<int>{0x76, 0xD0}));  // 224, -8
    for (const auto& [name, scale] : {std::pair("x.weight_scale", 2), {"x.input_scale", 3}}) {
      EXPECT_EQ(made.at(name).shape, modelopt ? Shape{} : Shape{1});
      EXPECT_EQ(*made.value(name).as<float>(), scale);
    }
  }
}

TEST(WeightQuantizer, NumbersOfFourBits) {
  // Halfway between two, it is the one whose last bit is zero.
  const float halfway[] = {.25F, .75F, 1.25F, 1.75F, 2.5F, 3.5F, 5, 7};
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(e2m1_of(halfway[i]), i % 2 == 0 ? i : std::min(i + 1, 7U)) << i;
    EXPECT_EQ(e2m1_of(-std::nextafter(halfway[i], 9.F)), 8 + std::min(i + 1, 7U)) << i;
    EXPECT_EQ(e2m1_of(std::nextafter(halfway[i], 0.F)), i) << i;
  }
}

TEST(WeightQuantizer, GroupsOfSixteenInFourBits) {
  const HostTensor matrix(DType::f32, {1, 32});
  fill_with(matrix, [&](std::int64_t i) { return i == 0 ? .8 : i == 1 ? -.4 : 0; });
  const QuantizedMatrix made({.format = WeightFormat::nvfp4, .static_inputs = true}, "x.weight",
                             matrix, {.weights = 2.688F, .inputs = 5.376F});
  EXPECT_EQ(made.at("x.weight_packed").shape, (Shape{1, 16}));
  EXPECT_FLOAT_EQ(*made.value("x.weight_global_scale").as<float>(), 1000);
  EXPECT_FLOAT_EQ(*made.value("x.input_global_scale").as<float>(), 500);
  // 133.3 is 128; .8 / .128 = 6.25, -.4 / .128 = -3.125; of zeros an eighth.
  EXPECT_EQ(codes_of(made, "x.weight_scale"), (std::vector<int>{0x70, 0x20}));
  EXPECT_EQ(codes_of(made, "x.weight_packed")[0], 0xD7);
  const QuantizedMatrix theirs(
      {.format = WeightFormat::nvfp4, .static_inputs = true, .modelopt = true}, "x.weight", matrix,
      {.weights = 2.688F, .inputs = 5.376F});
  EXPECT_FLOAT_EQ(*theirs.value("x.weight_scale_2").as<float>(), .001F);
  EXPECT_FLOAT_EQ(*theirs.value("x.input_scale").as<float>(), .002F);
  EXPECT_EQ(codes_of(theirs, "x.weight_scale"), (std::vector<int>{0x70, 0x38}));
  EXPECT_EQ(codes_of(theirs, "x.weight")[0], 0xD7);
}

TEST(WeightQuantizer, GroupsOfThirtyTwoInFourBits) {
  const HostTensor matrix(DType::f32, {1, 96});
  fill_with(matrix, [&](std::int64_t i) { return i == 0 ? 6 : i == 1 ? 4 : i == 32 ? -7 : 0; });
  const QuantizedMatrix made({.format = WeightFormat::mxfp4}, "x.weight", matrix, {});
  // 7 is nearer to 8 of 2 x 4 than to 6; zeros have the least of scales.
  EXPECT_EQ(codes_of(made, "x.weight_scale"), (std::vector<int>{127, 128, 0}));
  EXPECT_EQ(codes_of(made, "x.weight_packed")[0], 0x67);
  EXPECT_EQ(codes_of(made, "x.weight_packed")[16], 0x0E);
}

TEST_F(Convert, FoldersInEightBitsAreWhatIsReadOfThem) {
  for (const char* const format : {"fp8", "fp8_block"})
    for (const char* const name : {"llama", "qwen2", "qwen3", "gemma", "phi3", "olmo2", "cohere"}) {
      SCOPED_TRACE(concat(format, " ", name));
      const std::string from = concat(format, name), to = from + "-made";
      write_hugging_face(scratch_.path(from), config_named(name), DType::bf16);
      ConvertOptions options;
      options.quantize = format;
      options.verify = true;
      const ConvertReport report = convert(from, to, "hf", options);
      EXPECT_EQ(report.compared, report.rows);
      const SafetensorsReader stored(scratch_.path(to + "/model.safetensors"));
      for (const auto& [key, tensor] : stored.tensors())
        EXPECT_EQ(tensor.dtype == DType::f8, key.ends_with("_proj.weight")) << key;
    }
}

std::vector<float> hidden_states(const ModelSource& source) {
  const ModelConfig& config = source.config();
  const auto model = make_model(config, {{.end = config.all_layers()}});
  model->table().allocate(Device::cpu, DType::f32, false);
  for (const Param& row : model->table().rows()) source.read(row, "", row.value);
  Stream stream(Device::cpu);
  Pass pass(*model, stream, config.vocab_size);
  constexpr PassSize kSize{.length = 12, .rows = 12};
  pass.reserve([&](Pass& meta) {
    meta.input(kSize);
    meta.hidden();
  });
  const PassInput in = pass.input(kSize);
  for (std::int32_t i = 0; i < 12; ++i) {
    in.ids.as<std::int32_t>()[i] = 40 + i * 7;
    in.positions.as<std::int32_t>()[i] = in.rows.as<std::int32_t>()[i] = i;
  }
  const auto hidden = pass.hidden().span<float>();
  return {hidden.begin(), hidden.end()};
}

// A model with GPT-2's tokenizer, whose weights are drawn.
std::string write_wide(const Scratch& scratch, const std::string& name, const ModelConfig& config) {
  const std::string folder = scratch.path(name);
  std::filesystem::create_directory(folder);
  write_file_atomically(folder + "/config.json",
                        hugging_face_config(config, DType::f32, R"({"model_type":"none"})"), false);
  for (const char* const file : {"vocab.json", "merges.txt"})
    std::filesystem::copy(concat(MT_TESTDATA, "/gpt2_bpe/", file), concat(folder, "/", file));
  return folder;
}

constexpr const char* kText =
    "It rains. Nick has 5 stones. He finds 3 more. Now he has eight. Sam has a pig.";

struct Smoothed : Convert {
  // A model of one layer, wide enough for groups, and how it reads a text.
  void take(const std::string& name, std::int64_t groups) {
    File text = File::create(scratch_.path("text"));
    text.write(kText);
    ModelConfig c = config_named(name);
    c.hidden_size = c.ffn_hidden_size.emplace(128);
    c.num_attention_heads = 4;
    c.num_query_groups = groups;
    c.kv_channels = 32;
    c.num_layers = 1;
    c.vocab_size = 400;
    c.padded_vocab_size = 0;
    c.init_method_std = .2;
    if (c.embedding_mult != 1) c.embedding_mult = std::sqrt(128.0);  // Gemma's
    c.complete();
    source_ = open_model(write_wide(scratch_, concat(name, groups), c), {.mock = 1});
    calibration_ = calibrate(*source_, {.text = scratch_.path("text"), .size = 2, .seq_length = 16},
                             true, Log{});
  }
  // With norms that will be of a type.
  template <class Find>
  RowFactorsByName factors(DType dtype, const Find& find) const {
    return smoothing_factors(
        *source_, *calibration_, [&](const Param&) { return dtype; },
        [&](const Param& row, const LayerInputs& inputs) { return find(*source_, row, inputs); });
  }
  SmoothedSource smoothed(const RowFactorsByName& factors) const {
    return {open_model(source_->path(), {.mock = 1}), factors};
  }

  std::unique_ptr<ModelSource> source_;
  std::optional<Calibration> calibration_;
};

TEST_F(Smoothed, AGpuReadsATextAsTheCpu) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  take("llama", 4);
  const TextOptions here{.text = scratch_.path("text"), .size = 2, .seq_length = 16};
  TextOptions there = here;
  there.device = Device::cuda;
  there.device_was_given = true;
  const Calibration of_gpu = calibrate(*source_, there, true, Log{});
  int layers = 0;
  for (const Param& row : model_rows(source_->config()).rows()) {
    const LayerInputs* const expected = calibration_->find(row);
    ASSERT_EQ(expected == nullptr, of_gpu.find(row) == nullptr) << row.name();
    if (expected == nullptr) continue;
    const LayerInputs& found = of_gpu.of(row);
    EXPECT_EQ(found.tokens, expected->tokens);
    EXPECT_EQ(found.kept, expected->kept);
    for (std::size_t c = 0; c < found.sums.size(); ++c) {
      EXPECT_NEAR(found.sums[c], expected->sums[c], 1e-4 * expected->sums[c]) << row.name();
      EXPECT_NEAR(found.largest[c], expected->largest[c], 1e-4F * expected->largest[c]);
    }
    const float most = std::ranges::max(expected->largest);
    for (std::size_t i = 0; i < found.some.size(); ++i)
      ASSERT_NEAR(found.some[i], expected->some[i], 1e-5F * most) << row.name();
    ++layers;
  }
  EXPECT_EQ(layers, 4);
  const TextSequences text = read_cost_text(*source_, here);
  const QuantizationCost cost = quantization_cost(*source_, *source_, text, there, Log{});
  EXPECT_EQ(cost.divergence, 0);
  EXPECT_NEAR(cost.perplexity, quantization_cost(*source_, *source_, text, here, Log{}).perplexity,
              1e-4 * cost.perplexity);
}

TEST_F(Smoothed, ScalesOfColumnsChangeNothingThatIsComputed) {
  for (const auto& [name, groups, scaled] :
       // A Llama's four matrices and two norms; without the norm that attention and the MLP share,
       // or that is behind them; without a matrix whose inputs no row makes alone; with biases.
       {std::tuple("llama", 4, 6),
        {"llama", 2, 5},
        {"qwen2", 4, 7},
        {"gemma", 4, 6},
        {"nemotron", 4, 7},
        {"cohere", 4, 4},
        {"olmo2", 4, 4}}) {
    SCOPED_TRACE(concat(name, " ", groups));
    take(name, groups);
    const std::vector<float> before = hidden_states(*source_);
    for (const auto& find : {awq_scales, smooth_quant_scales}) {
      const RowFactorsByName by = factors(DType::f32, find);
      EXPECT_EQ(std::ssize(by), scaled);
      const std::vector<float> after = hidden_states(smoothed(by));
      for (std::size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(after[i], before[i], 1e-4) << i;
    }
  }
}

// Of a norm that is stored less 1, 1 / s - 1 in bf16 is far from what 1 / s is: columns are
// multiplied by what is left.
TEST_F(Smoothed, NormsAreRoundedBeforeColumnsAreMultiplied) {
  take("gemma", 4);
  const std::string module = "decoder.layers.0.mlp.linear_fc1.";
  const Param norm = model_rows(source_->config()).at(module + "layer_norm_weight");
  const std::vector<float> before = matrix_of(*source_, norm);
  // How far off what a column is multiplied by in all is, by factors for norms of a type.
  const auto furthest = [&](DType dtype) {
    const RowFactorsByName by = factors(dtype, smooth_quant_scales);
    const HostTensor stored(DType::bf16, norm.shape), rounded(DType::f32, norm.shape);
    smoothed(by).read(norm, "", stored);
    copy_numbers(stored, rounded);
    double most = 0;
    for (std::size_t j = 0; j < before.size(); ++j) {
      const double norm_now = 1 + element(rounded.view(), static_cast<std::int64_t>(j)),
                   all = norm_now * by.at(module + "weight").columns[j];
      most = std::max(most, std::fabs(all / (1 + before[j]) - 1));
    }
    return most;
  };
  EXPECT_LT(furthest(DType::bf16), 1e-6);
  EXPECT_GT(furthest(DType::f32), 1e-3);
}

// A norm of 1 that is divided so that nothing of 1 / s - 1 is left, or more than float16 holds.
TEST_F(Smoothed, NormsThatWouldBeZeroStayAndThoseThatWouldBeInfiniteAreRefused) {
  take("gemma", 4);
  const auto all = [](float scale) {
    return [scale](const ModelSource&, const Param& row, const LayerInputs&) {
      return std::vector<float>(static_cast<std::size_t>(row.shape[1]), scale);
    };
  };
  const std::string module = "decoder.layers.0.mlp.linear_fc1.";
  const Param norm = model_rows(source_->config()).at(module + "layer_norm_weight");
  const RowFactorsByName zero = factors(DType::bf16, all(1e4F));
  for (const float x : zero.at(module + "weight").columns) EXPECT_EQ(x, 1);
  EXPECT_EQ(matrix_of(smoothed(zero), norm), matrix_of(*source_, norm));
  const RowFactorsByName infinite = factors(DType::f16, all(1e-5F));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const HostTensor made(dtype, norm.shape);
    const std::string error = error_of([&] { smoothed(infinite).read(norm, "", made); });
    EXPECT_EQ(error, dtype == DType::bf16
                         ? ""
                         : concat("78 ", source_->path(), ": ", norm.name(),
                                  ": scales of columns make numbers of it that float16 does not "
                                  "hold; see --dtype"));
  }
}

TEST_F(Convert, WhatOtherWeightsCostIsToldOfEachLayer) {
  File text = File::create(scratch_.path("text"));
  text.write(kText);
  ModelConfig c = config_named("llama");
  c.num_layers = 1;
  c.vocab_size = 400;
  c.padded_vocab_size = 0;
  c.init_method_std = .2;
  c.complete();
  const std::string folder = write_wide(scratch_, "llama", c);
  const auto source = open_model(folder, {.mock = 1}), other = open_model(folder, {.mock = 2});
  const TextOptions options{.text = scratch_.path("text"), .size = 2, .seq_length = 16};
  const TextSequences text_of = read_cost_text(*source, options);
  const QuantizationCost none = quantization_cost(*source, *source, text_of, options, Log{}),
                         all = quantization_cost(*source, *other, text_of, options, Log{});
  for (const QuantizationCost& cost : {none, all}) {
    EXPECT_EQ(cost.tokens, 2 * 7);  // of 8 positions
    EXPECT_EQ(cost.perplexity_before, none.perplexity);
    std::vector<std::string> names;
    for (const auto& layer : cost.layers) names.push_back(layer.name);
    EXPECT_EQ(names, (std::vector<std::string>{"decoder.layers.0.self_attention.linear_qkv.weight",
                                               "decoder.layers.0.self_attention.linear_proj.weight",
                                               "decoder.layers.0.mlp.linear_fc1.weight",
                                               "decoder.layers.0.mlp.linear_fc2.weight"}));
  }
  EXPECT_EQ(none.divergence, 0);
  EXPECT_EQ(none.same_likeliest, 1);
  EXPECT_GT(all.divergence, .1);
  EXPECT_LT(all.same_likeliest, .5);
  for (const auto& layer : none.layers) EXPECT_EQ(layer.error, 0) << layer.name;
  for (const auto& layer : all.layers) EXPECT_NEAR(layer.error, std::sqrt(2), .3) << layer.name;
  EXPECT_EQ(
      error_of([&] {
        write_hugging_face(scratch_.path("bert"), config_named("bert"), DType::f32);
        const auto bert = open_model(scratch_.path("bert"), {});
        read_cost_text(*bert, options);
      }),
      concat("78 --cost-text: ", scratch_.path("bert"), " is no GPT, which guesses what follows"));
}

TEST_F(Convert, WhatIsNotQuantizedIsNamed) {
  ConvertOptions options;
  options.quantize = "fp8";
  for (const auto& [name, what] :
       {std::pair("mixtral", "not of experts, which readers look for in other tensors"),
        {"mamba", "is for a GPT's layers; this is another family's model"},
        {"bert", "is for a GPT's layers; this is another family's model"},
        {"gpt2",
         "a GPT-2's layers are no torch.nn.Linear, which alone readers of such folders replace"},
        {"llama_of_labels", "not of a model with the head of a task"}}) {
    write_hugging_face(scratch_.path(name), config_named(name), DType::bf16);
    EXPECT_EQ(error(name, "made", "hf", options), concat("78 --quantize fp8: ", what));
  }
  write_hugging_face(scratch_.path("llama"), config_named("llama"), DType::bf16);
  EXPECT_EQ(error("llama", "made", "core", options),
            "64 --quantize fp8: means nothing with --saver core");
  options.quantize = "int4_awq";
  EXPECT_EQ(error("llama", "made", "hf", options),
            "64 --quantize int4_awq: needs a text; see --calib");
  options.calibration.text = scratch_.path("text");
  const std::string llama = scratch_.path("llama");
  const auto source = open_model(llama, {});
  EXPECT_EQ(error_of([&] { calibrate(*source, options.calibration, false, Log{}); }),
            concat("78 --calib: ", llama, " has no tokenizer, by which it is read"));
}

std::string quantization_error(const std::string& json) {
  return error_of([&] { read_quantization(json, "config.json"); });
}

TEST(QuantizationConfig, NamesWhatIsNotRead) {
  EXPECT_EQ(quantization_error(R"({"quant_method": "hqq"})"),
            "65 config.json: quant_method is \"hqq\", expected one of mxfp4, fp8, "
            "compressed-tensors, awq, gptq, modelopt, bitsandbytes");
  EXPECT_EQ(quantization_error(R"({"quant_method": "awq", "bits": 4, "version": "gemv"})"),
            "65 config.json: version is \"gemv\", expected one of gemm, GEMM");
  EXPECT_EQ(quantization_error(R"({"quant_method": "gptq", "bits": 3})"),
            "65 config.json: bits: expected 2, 4 or 8");
  EXPECT_EQ(quantization_error(R"({"quant_method": "fp8", "weight_block_size": [128]})"),
            "65 config.json: weight_block_size: expected two sizes");
  EXPECT_EQ(
      quantization_error(R"({"quant_method": "compressed-tensors", "format": "marlin-24"})"),
      "65 config.json: format is \"marlin-24\", expected one of float-quantized, int-quantized, "
      "naive-quantized, pack-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, "
      "mixed-precision");
}

}  // namespace
}  // namespace mt
