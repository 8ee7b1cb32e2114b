#include "formats/hugging_face/weight_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "ckpt/tensor_numbers.h"
#include "ckpt/torch_file.h"
#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"

namespace mt {
namespace {

constexpr float kLargestE4m3 = 448, kLargestE2m1 = 6;

// A matrix's numbers.
class Numbers {
 public:
  explicit Numbers(ConstTensor matrix)
      : in_(matrix.shape()[1]), numbers_(static_cast<std::size_t>(matrix.numel())) {
    dense(matrix.dtype(), matrix.shape(),
          {static_cast<const std::byte*>(matrix.data()), matrix.bytes()})
        .copy_to({0, 0}, {numbers_.data(), DType::f32, matrix.shape()});
  }
  std::span<const float> all() const { return numbers_; }
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

// What the scale of numbers up to `largest`, which become those up to `code`, is in a tensor of
// this type, and so for those who multiply.
float scale_of(float largest, float code, DType dtype) {
  if (largest == 0) return 1;
  const float scale = std::max(largest / code, std::numeric_limits<float>::min());
  return dtype == DType::bf16 ? static_cast<float>(Bf16(scale)) : scale;
}

void write_floats(std::span<const float> numbers, Tensor out) {
  dense(DType::f32, out.shape(), std::as_bytes(numbers))
      .copy_to(origin_of(out.shape().rank()), out);
}

void round_to_e4m3(std::span<const float> numbers, float scale, std::uint8_t* codes) {
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
      found.push_back(scale_of(largest, kLargestE4m3, scales.dtype()));
      for (std::int64_t row = top; row < below; ++row)
        round_to_e4m3(numbers.at(row, left, wide), found.back(), code + row * in + left);
    }
  write_floats(found, scales);
}

// Weights with one scale, and that of what they read.
void quantize_all(const Numbers& numbers, const SharedRange& range, Tensor codes, Tensor scale,
                  Tensor input_scale) {
  const float of_weights = scale_of(range.weights, kLargestE4m3, scale.dtype()),
              of_inputs = scale_of(range.inputs, kLargestE4m3, input_scale.dtype());
  round_to_e4m3(numbers.all(), of_weights, static_cast<std::uint8_t*>(codes.data()));
  write_floats({&of_weights, 1}, scale);
  write_floats({&of_inputs, 1}, input_scale);
}

void quantize_rows(const Numbers& numbers, Tensor codes, Tensor scales) {
  const std::int64_t out = codes.shape()[0], in = codes.shape()[1];
  auto* code = static_cast<std::int8_t*>(codes.data());
  std::vector<float> found;
  for (std::int64_t row = 0; row < out; ++row) {
    found.push_back(scale_of(largest_of(numbers.at(row, 0, in)), 127.5F, scales.dtype()));
    for (const float x : numbers.at(row, 0, in))
      *code++ =
          static_cast<std::int8_t>(std::clamp(std::nearbyint(x / found.back()), -128.0F, 127.0F));
  }
  write_floats(found, scales);
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
  write_floats(found, scales);
}

// Fills codes of two numbers a byte, and the bits of scales of groups, of which `bits_of` tells
// those of a group's largest, and `value_of` what the group's numbers are divided by.
template <class BitsOf, class ValueOf>
void quantize_pairs(const Numbers& numbers, Tensor codes, Tensor scales, const BitsOf& bits_of,
                    const ValueOf& value_of) {
  const std::int64_t groups = scales.numel(), size = codes.numel() * 2 / groups;
  auto* code = static_cast<std::uint8_t*>(codes.data());
  auto* const bits = static_cast<std::uint8_t*>(scales.data());
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto of_group = numbers.all().subspan(static_cast<std::size_t>(group * size),
                                                static_cast<std::size_t>(size));
    bits[group] = bits_of(largest_of(of_group));
    const float scale = value_of(bits[group]);
    for (std::size_t i = 0; i < of_group.size(); i += 2)
      *code++ = static_cast<std::uint8_t>(e2m1_of(of_group[i] / scale) |
                                          e2m1_of(of_group[i + 1] / scale) << 4);
  }
}

float value_of_e4m3(std::uint8_t bits) {
  Fp8 number;
  number.bits = bits;
  return static_cast<float>(number);
}

// What divides numbers up to `largest`, of compressed-tensors' nvfp4.
float divisor_of(float largest) {
  const float divisor = kLargestE4m3 * kLargestE2m1 / largest;
  return std::isfinite(divisor) ? divisor : 1;
}

void quantize_nvfp4(const Numbers& numbers, const SharedRange& range,
                    std::span<const Tensor> tensors) {
  const float global = divisor_of(range.weights), of_inputs = divisor_of(range.inputs);
  const std::uint8_t eighth = Fp8(.125F).bits;
  quantize_pairs(
      numbers, tensors[0], tensors[1],
      [&](float largest) {
        const std::uint8_t bits = Fp8(global * (largest / kLargestE2m1)).bits;
        return bits == 0 ? eighth : bits;
      },
      [&](std::uint8_t bits) { return value_of_e4m3(bits) / global; });
  write_floats({&global, 1}, tensors[2]);
  if (tensors.size() > 3) write_floats({&of_inputs, 1}, tensors[3]);
}

// What multiplies numbers up to `largest`, of ModelOpt's.
float multiplier_of(float largest) {
  return scale_of(largest, kLargestE2m1 * kLargestE4m3, DType::f32);
}

void quantize_modelopt_nvfp4(const Numbers& numbers, const SharedRange& range,
                             std::span<const Tensor> tensors) {
  const float second = multiplier_of(range.weights), of_inputs = multiplier_of(range.inputs);
  quantize_pairs(
      numbers, tensors[0], tensors[1],
      [&](float largest) {
        const float scale = largest / (kLargestE2m1 * second);
        return Fp8(scale == 0 ? 1 : std::clamp(scale, 0x1p-9F, kLargestE4m3)).bits;
      },
      [&](std::uint8_t bits) { return value_of_e4m3(bits) * second; });
  write_floats({&second, 1}, tensors[2]);
  write_floats({&of_inputs, 1}, tensors[3]);
}

void quantize_mxfp4(const Numbers& numbers, Tensor codes, Tensor scales) {
  quantize_pairs(
      numbers, codes, scales,
      [](float largest) {
        constexpr std::uint32_t kQuarter = 1 << 21;  // of a mantissa, which begins at 1
        const auto exponent =
            static_cast<int>((std::bit_cast<std::uint32_t>(largest) + kQuarter) >> 23);
        return static_cast<std::uint8_t>(std::max(exponent - 2, 0));
      },
      [](std::uint8_t bits) { return std::ldexp(1.F, bits - 127); });
}

}  // namespace

float largest_of(ConstTensor matrix) { return largest_of(Numbers(matrix).all()); }

float scale_of_four_bits(std::span<const float> numbers, DType dtype) {
  return scale_of(largest_of(numbers), 7.5F, dtype);
}

int four_bits_of(float number, float scale) {
  return static_cast<int>(std::clamp(std::nearbyint(number / scale), -8.0F, 7.0F));
}

unsigned e2m1_of(float number) {
  const float x = std::fabs(number);
  const unsigned magnitude =
      (x > .25F) + (x >= .75F) + (x > 1.25F) + (x >= 1.75F) + (x > 2.5F) + (x >= 3.5F) + (x > 5);
  return magnitude | (std::signbit(number) ? 8U : 0U);
}

QuantizedMatrix::QuantizedMatrix(const WeightScheme& scheme, const std::string& name,
                                 ConstTensor matrix, const SharedRange& range)
    : name_(name) {
  std::vector<Tensor> tensors;
  for (const SafetensorsWriter::Entry& e :
       quantized_entries(scheme, name, matrix.dtype(), matrix.shape())) {
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
  constexpr std::int64_t kBlock = 128;
  const Numbers numbers(matrix);
  switch (scheme.format) {
    case WeightFormat::none:
      fail(Exit::internal, name, ": is to be quantized in no format");
    case WeightFormat::fp8:
      if (scheme.static_inputs)
        quantize_all(numbers, range, tensors[0], tensors[1], tensors[2]);
      else
        quantize_blocks(numbers, 1, matrix.shape()[1], tensors[0], tensors[1]);
      break;
    case WeightFormat::fp8_block:
      quantize_blocks(numbers, kBlock, kBlock, tensors[0], tensors[1]);
      break;
    case WeightFormat::int8_sq:
      quantize_rows(numbers, tensors[0], tensors[1]);
      break;
    case WeightFormat::int4_awq:
    case WeightFormat::w4a8_awq:
      quantize_words(numbers, matrix.shape(), tensors[0], tensors[1]);
      std::ranges::copy(matrix.shape().extents(), tensors[2].as<std::int64_t>());
      break;
    case WeightFormat::nvfp4:
      if (scheme.modelopt)
        quantize_modelopt_nvfp4(numbers, range, tensors);
      else
        quantize_nvfp4(numbers, range, tensors);
      break;
    case WeightFormat::mxfp4:
      quantize_mxfp4(numbers, tensors[0], tensors[1]);
      break;
  }
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

void round_to_format(const WeightScheme& scheme, const std::string& name, Tensor out,
                     ConstTensor matrix, const SharedRange& range) {
  const auto weights =
      unpacked(std::make_unique<QuantizedMatrix>(scheme, name, matrix, range),
               read_quantization(quantization_config(scheme), name), matrix.dtype());
  weights->read_original(name, {0, 0}, out);
}

void check_room(const WeightScheme& scheme, const std::string& name, ConstTensor matrix,
                const SharedRange& range) {
  const float half =
      matrix.dtype() == DType::f16 ? 0x1p15F : 0x1p127F;  // nothing is rounded so far
  const float largest = largest_of(matrix);
  if (largest < half) return;
  const Buffer made(Device::cpu, matrix.bytes());
  const Tensor read = made.tensor(matrix.dtype(), matrix.shape());
  round_to_format(scheme, name, read, matrix, range);
  if (!is_finite(read))
    fail(Exit::bad_config, "--quantize ", mt::name_of(scheme.format), ": ", name, " has ", largest,
         " for its largest number, near which numbers are rounded to what ",
         mt::name_of(matrix.dtype()), " does not hold; see --dtype");
}

}  // namespace mt
