#include "formats/hugging_face/weight_quantizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/half.h"
#include "base/json.h"
#include "ckpt/torch_file.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr std::string_view kNames[] = {"", "fp8", "fp8_block", "int4_awq"};  // of each WeightFormat
constexpr std::int64_t kBlock = 128;
constexpr float kLargest = 448;  // of E4M3

std::string_view name_of(WeightFormat format) { return kNames[static_cast<int>(format)]; }

// A matrix's numbers.
class Numbers {
 public:
  explicit Numbers(ConstTensor matrix)
      : in_(matrix.shape()[1]), numbers_(static_cast<std::size_t>(matrix.numel())) {
    dense(matrix.dtype(), matrix.shape(),
          {static_cast<const std::byte*>(matrix.data()), matrix.bytes()})
        .copy_to({0, 0}, {numbers_.data(), DType::f32, matrix.shape()});
  }
  std::span<const float> at(std::int64_t row, std::int64_t column, std::int64_t count) const {
    return std::span(numbers_).subspan(static_cast<std::size_t>(row * in_ + column),
                                       static_cast<std::size_t>(count));
  }

 private:
  std::int64_t in_;
  std::vector<float> numbers_;
};

float largest_of(std::span<const float> numbers) {
  float largest = 0;
  for (const float x : numbers) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Those of float16 would have few bits or none where weights are small.
DType dtype_of_scales(DType of_matrix) {
  return of_matrix == DType::bf16 ? DType::bf16 : DType::f32;
}

// What the scale of numbers up to `largest`, which become those up to `code`, is in a tensor of
// this type, and so for those who multiply.
float scale_of(float largest, float code, DType dtype) {
  if (largest == 0) return 1;
  const float scale = std::max(largest / code, std::numeric_limits<float>::min());
  return dtype == DType::bf16 ? static_cast<float>(Bf16(scale)) : scale;
}

void round_to_eight_bits(std::span<const float> numbers, float scale, std::uint8_t* codes) {
  for (const float x : numbers) *codes++ = Fp8(x / scale).bits;
}

// Fills codes and scales, block by block of so many rows and columns.
void quantize_blocks(const Numbers& numbers, std::int64_t rows, std::int64_t columns, Tensor codes,
                     Tensor scales) {
  const std::int64_t out = codes.shape()[0], in = codes.shape()[1];
  const auto code = static_cast<std::uint8_t*>(codes.data());
  std::vector<float> found;
  for (std::int64_t top = 0; top < out; top += rows)
    for (std::int64_t left = 0; left < in; left += columns) {
      const std::int64_t below = std::min(top + rows, out), wide = std::min(columns, in - left);
      float largest = 0;
      for (std::int64_t row = top; row < below; ++row)
        largest = std::max(largest, largest_of(numbers.at(row, left, wide)));
      found.push_back(scale_of(largest, kLargest, scales.dtype()));
      for (std::int64_t row = top; row < below; ++row)
        round_to_eight_bits(numbers.at(row, left, wide), found.back(), code + row * in + left);
    }
  dense(DType::f32, scales.shape(), std::as_bytes(std::span(found))).copy_to({0, 0}, scales);
}

void quantize_words(const Numbers& numbers, const Shape& shape, Tensor words, Tensor scales) {
  constexpr std::int64_t kInWord = 8, kGroup = kGroupOfFourBits;
  auto* word = words.as<std::int32_t>();
  std::vector<float> found;
  for (std::int64_t row = 0; row < shape[0]; ++row)
    for (std::int64_t left = 0; left < shape[1]; left += kGroup) {
      found.push_back(scale_of_four_bits(numbers.at(row, left, kGroup), scales.dtype()));
      for (std::int64_t at = left; at < left + kGroup; at += kInWord) {
        std::uint32_t bits = 0;
        for (std::int64_t k = 0; k < kInWord; ++k)
          bits |= static_cast<std::uint32_t>(
                      four_bits_of(numbers.at(row, at + k, 1).front(), found.back()) + 8)
                  << (4 * k);
        *word++ = static_cast<std::int32_t>(bits);
      }
    }
  dense(DType::f32, scales.shape(), std::as_bytes(std::span(found))).copy_to({0, 0}, scales);
}

}  // namespace

float scale_of_four_bits(std::span<const float> numbers, DType dtype) {
  return scale_of(largest_of(numbers), 7.5F, dtype);
}

int four_bits_of(float number, float scale) {
  return static_cast<int>(std::clamp(std::nearbyint(number / scale), -8.0F, 7.0F));
}

std::vector<std::string> weight_formats() { return {std::begin(kNames) + 1, std::end(kNames)}; }

WeightFormat weight_format(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) fail(Exit::internal, name, ": is no format of weights");
  return static_cast<WeightFormat>(found - kNames);
}

void check_quantizable(WeightFormat format, const ModelConfig& config) {
  const auto refuse = [&](const char* what) {
    fail(Exit::bad_config, "--quantize ", name_of(format), ": ", what);
  };
  if (config.num_experts > 0) refuse("not of experts, which readers look for in other tensors");
  if (config.family != ModelFamily::gpt)
    refuse("is for a GPT's layers; this is another family's model");
  if (config.position_embedding_type == "learned_absolute")
    refuse("a GPT-2's layers are no torch.nn.Linear, which alone readers of such folders replace");
  if (config.has_task_head()) refuse("not of a model with the head of a task");
}

bool has_cut_blocks(WeightFormat format, const Shape& shape) {
  return format == WeightFormat::fp8_block && (shape[0] % kBlock != 0 || shape[1] % kBlock != 0);
}

bool is_quantized(WeightFormat format, const Param& row) {
  return format != WeightFormat::none && row.place.layer && row.place.param == "weight" &&
         row.shape.rank() == 2;
}

std::string quantization_config(WeightFormat format) {
  switch (format) {
    case WeightFormat::none:
      return {};
    case WeightFormat::fp8:
      return R"({"quant_method":"compressed-tensors","format":"float-quantized",)"
             R"("quantization_status":"compressed","ignore":["lm_head"],"kv_cache_scheme":null,)"
             R"("config_groups":{"group_0":{"targets":["Linear"],)"
             R"("weights":{"num_bits":8,"type":"float","symmetric":true,"strategy":"channel",)"
             R"("dynamic":false},"input_activations":{"num_bits":8,"type":"float",)"
             R"("symmetric":true,"strategy":"token","dynamic":true},"output_activations":null}}})";
    case WeightFormat::fp8_block:
      return R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",)"
             R"("weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})";
    case WeightFormat::int4_awq:
      return R"({"quant_method":"compressed-tensors","format":"pack-quantized",)"
             R"("quantization_status":"compressed","ignore":["lm_head"],"kv_cache_scheme":null,)"
             R"("config_groups":{"group_0":{"targets":["Linear"],)"
             R"("weights":{"num_bits":4,"type":"int","symmetric":true,"strategy":"group",)"
             R"("group_size":128,"dynamic":false},"input_activations":null,)"
             R"("output_activations":null}}})";
  }
  return {};
}

std::vector<SafetensorsWriter::Entry> quantized_entries(WeightFormat format,
                                                        const std::string& name, DType dtype,
                                                        const Shape& shape) {
  if (format == WeightFormat::fp8)
    return {{name, DType::f8, shape}, {name + "_scale", dtype_of_scales(dtype), {shape[0], 1}}};
  if (format == WeightFormat::int4_awq) {
    constexpr std::int64_t kGroup = kGroupOfFourBits;
    if (shape[1] % kGroup != 0)
      fail(Exit::bad_config, "--quantize int4_awq: ", name, " has ", shape[1],
           " columns, which groups of ", kGroup, " do not divide");
    return {{name + "_packed", DType::i32, {shape[0], shape[1] / 8}},
            {name + "_scale", dtype_of_scales(dtype), {shape[0], shape[1] / kGroup}},
            {name + "_shape", DType::i64, {2}}};
  }
  return {{name, DType::f8, shape},
          {name + "_scale_inv",
           DType::f32,
           {blocks_of(shape[0], kBlock), blocks_of(shape[1], kBlock)}}};
}

QuantizedMatrix::QuantizedMatrix(WeightFormat format, const std::string& name, ConstTensor matrix)
    : name_(name) {
  const auto entries = quantized_entries(format, name, matrix.dtype(), matrix.shape());
  std::vector<Tensor> tensors;
  for (const SafetensorsWriter::Entry& e : entries) {
    tensors_.emplace(e.name, DistTensor{.key = e.name,
                                        .dtype = e.dtype,
                                        .dtype_name = std::string(mt::name_of(e.dtype)),
                                        .shape = e.shape,
                                        .chunks = {}});
    const Buffer& buffer =
        values_
            .emplace(e.name, Buffer(Device::cpu,
                                    static_cast<std::size_t>(e.shape.numel()) * size_of(e.dtype)))
            .first->second;
    tensors.push_back(buffer.tensor(e.dtype, e.shape));
  }
  if (format == WeightFormat::int4_awq) {
    quantize_words(Numbers(matrix), matrix.shape(), tensors[0], tensors[1]);
    std::ranges::copy(matrix.shape().extents(), tensors[2].as<std::int64_t>());
    return;
  }
  const bool blocks = format == WeightFormat::fp8_block;
  quantize_blocks(Numbers(matrix), blocks ? kBlock : 1, blocks ? kBlock : matrix.shape()[1],
                  tensors[0], tensors[1]);
}

ConstTensor QuantizedMatrix::value(const std::string& key) const {
  const DistTensor& tensor = at(key);
  return values_.at(key).tensor(*tensor.dtype, tensor.shape);
}

void QuantizedMatrix::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  const DistTensor& tensor = readable(key, offset, out);
  const ConstTensor all = value(key);
  dense(*tensor.dtype, tensor.shape, {static_cast<const std::byte*>(all.data()), all.bytes()})
      .copy_to(offset, out);
}

void round_to_format(WeightFormat format, const std::string& name, Tensor out, ConstTensor matrix) {
  const auto weights =
      unpacked(std::make_unique<QuantizedMatrix>(format, name, matrix),
               read_quantization(quantization_config(format), name), matrix.dtype());
  weights->read_original(name, {0, 0}, out);
}

}  // namespace mt
