#include "formats/hugging_face/byte_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/hugging_face/mxfp4_weights.h"
#include "kernels/packed_rows.h"

namespace mt {
namespace {

constexpr std::int64_t kGroup = 16, kMxGroup = 32;  // of NVFP4, and MXFP4

std::vector<float> whole(const TensorSource& stored, const std::string& key, const Shape& shape) {
  const DistTensor& tensor = stored.at(key);
  if (tensor.shape.numel() != shape.numel())
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.shape, ", expected ",
         shape);
  expect_floats(stored, key);
  return stored_floats(stored, key, origin_of(tensor.shape.rank()), tensor.shape);
}

// The scale of a whole matrix.  Exit::bad_data for one that is zero, or not a finite number.
float scale_of_all(const TensorSource& stored, const std::string& key) {
  const float scale = whole(stored, key, {1})[0];
  if (scale == 0 || !std::isfinite(scale))
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", scale, ", which scales nothing");
  return scale;
}

// NVFP4: what all of a matrix is stored as.
struct Nvfp4 {
  const TensorSource& stored;
  std::string codes, scale;
  Shape shape;
  float second;  // the scale of all scales
  bool divides;
};

// The type of the blocks of its rows, where these have numbers that floats have all bits of.
std::optional<BlockType> block_of(const Nvfp4& m) {
  const BlockForm form = form_of(BlockType::nvfp4);
  const float size = std::fabs(m.divides ? 1 / m.second : m.second);
  const bool has_bits = size > 1e-30F && size < 1e30F;
  if (!has_bits || m.shape[1] < 1 || m.shape[1] % form.elements != 0 ||
      m.stored.at(m.scale).dtype != DType::f8)
    return {};
  return BlockType::nvfp4;
}

void fill_blocks(const Nvfp4& m, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  const BlockForm form = form_of(BlockType::nvfp4);
  const std::int64_t in = m.shape[1], rows = end - begin, of_block = form.elements / kGroup;
  const auto codes =
      stored_block<std::uint8_t>(m.stored, m.codes, DType::u8, {begin, 0}, {rows, in / 2});
  const auto scales =
      stored_block<std::uint8_t>(m.stored, m.scale, DType::f8, {begin, 0}, {rows, in / kGroup});
  for (std::int64_t i = 0; i < rows * in; i += form.elements, out += form.bytes) {
    const auto some = std::span(scales).subspan(static_cast<std::size_t>(i / kGroup),
                                                static_cast<std::size_t>(of_block));
    std::memcpy(out, &m.second, sizeof m.second);
    std::memset(out + 4, 0, 4);
    out[4] = m.divides ? 1 : 0;
    std::ranges::copy(some, out + 8);
    lay_out_e2m1(out + 8 + of_block,
                 std::span(codes).subspan(static_cast<std::size_t>(i / 2),
                                          static_cast<std::size_t>(form.elements / 2)));
    if (std::ranges::any_of(some, [](auto x) { return (x & 127) == 127; }))
      fail(Exit::bad_data, m.stored.path(), ": tensor ", m.scale, ": row ", begin + i / in,
           " has a number that is not finite");
  }
}

PackedWeight nvfp4_weight(const TensorSource& stored, const std::string& key,
                          const std::string& name) {
  const Shape packed = stored.at(key).shape, shape{packed[0], packed[1] * 2};
  const std::string scale = name + "_scale", second = name + "_scale_2",
                    global = name + "_global_scale";
  const bool divides = stored.find(global) != nullptr;
  if (shape[1] % kGroup != 0)
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", packed,
         ", whose rows are no groups of ", kGroup);
  expect_shape(stored, scale, {shape[0], shape[1] / kGroup});
  expect_floats(stored, scale);
  const float one = scale_of_all(stored, divides ? global : second);
  const auto unpack = [&stored, key, scale, shape, one, divides](
                          std::int64_t begin, std::int64_t end, std::span<float> out) {
    const std::int64_t in = shape[1], rows = end - begin;
    const auto bytes =
        stored_block<std::uint8_t>(stored, key, DType::u8, {begin, 0}, {rows, in / 2});
    const auto scales = stored_floats(stored, scale, {begin, 0}, {rows, in / kGroup});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float s = scales[i / static_cast<std::size_t>(kGroup)];
      out[i] = kE2m1[bytes[i / 2] >> (i % 2 * 4) & 15U] * (divides ? s / one : s * one);
    }
  };
  const Nvfp4 m{stored, key, scale, shape, one, divides};
  return {.name = name,
          .shape = shape,
          .parts = {key, scale, divides ? global : second},
          .unpack = unpack,
          .block = block_of(m),
          .blocks = [m](std::int64_t begin, std::int64_t end, std::uint8_t* out) {
            fill_blocks(m, begin, end, out);
          }};
}

PackedWeight mxfp4_weight(const TensorSource& stored, const std::string& key,
                          const std::string& name) {
  const Shape packed = stored.at(key).shape, shape{packed[0], packed[1] * 2};
  const std::string scale = name + "_scale";
  if (shape[1] % kMxGroup != 0)
    fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", packed,
         ", whose rows are no groups of ", kMxGroup);
  expect_shape(stored, scale, {shape[0], shape[1] / kMxGroup});
  const auto unpack = [&stored, key, scale, shape](std::int64_t begin, std::int64_t end,
                                                   std::span<float> out) {
    const std::int64_t in = shape[1], rows = end - begin;
    const auto bytes =
        stored_block<std::uint8_t>(stored, key, DType::u8, {begin, 0}, {rows, in / 2});
    const auto scales =
        stored_block<std::uint8_t>(stored, scale, DType::u8, {begin, 0}, {rows, in / kMxGroup});
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = scaled_e2m1(bytes[i / 2] >> (i % 2 * 4) & 15U,
                           scales[i / static_cast<std::size_t>(kMxGroup)]);
  };
  const auto blocks = [&stored, key, scale, shape](std::int64_t begin, std::int64_t end,
                                                   std::uint8_t* out) {
    constexpr std::size_t kBytes = kMxGroup / 2;
    const std::int64_t in = shape[1], rows = end - begin;
    const auto bytes =
        stored_block<std::uint8_t>(stored, key, DType::u8, {begin, 0}, {rows, in / 2});
    const auto scales =
        stored_block<std::uint8_t>(stored, scale, DType::u8, {begin, 0}, {rows, in / kMxGroup});
    for (std::size_t i = 0; i < scales.size(); ++i, out += 1 + kBytes)
      if (!lay_out_mxfp4(out, scales[i], std::span(bytes).subspan(i * kBytes, kBytes)))
        fail(Exit::bad_data, stored.path(), ": tensor ", key, ": row ",
             begin + static_cast<std::int64_t>(i) * kMxGroup / in,
             " has a number that is not finite");
  };
  return {.name = name,
          .shape = shape,
          .parts = {key, scale},
          .unpack = unpack,
          .block = BlockType::mxfp4,
          .blocks = blocks};
}

PackedWeight int4_weight(const TensorSource& stored, const std::string& key) {
  const Shape packed = stored.at(key).shape, shape{packed[0] * 2, packed[1]};
  const std::string scale = key + "_scale",
                    inputs = key.substr(0, key.size() - 6) + "pre_quant_scale";
  const DistTensor& of_scales = stored.at(scale);
  const std::int64_t groups = of_scales.shape.rank() == 2 ? of_scales.shape[1] : 0;
  if (groups < 1 || of_scales.shape[0] != shape[0] || shape[1] % groups != 0)
    fail(Exit::bad_data, stored.path(), ": tensor ", scale, " is ", of_scales.shape, ", expected [",
         shape[0], ", groups of ", shape[1], "]");
  expect_floats(stored, scale);
  PackedWeight weight{.name = key, .shape = shape, .parts = {key, scale}, .unpack = {}};
  const auto of_inputs = std::make_shared<std::vector<float>>();
  if (stored.find(inputs) != nullptr) {
    *of_inputs = whole(stored, inputs, {shape[1]});
    weight.parts.push_back(inputs);
  }
  weight.unpack = [&stored, key, scale, shape, groups, of_inputs](
                      std::int64_t begin, std::int64_t end, std::span<float> out) {
    const std::int64_t in = shape[1], first = begin / 2;
    const auto bytes =
        stored_block<std::uint8_t>(stored, key, DType::u8, {first, 0}, {(end + 1) / 2 - first, in});
    const auto scales = stored_floats(stored, scale, {begin, 0}, {end - begin, groups});
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t c = 0; c < in; ++c) {
        const int bits =
            bytes[static_cast<std::size_t>((row / 2 - first) * in + c)] >> (row % 2 * 4) & 15;
        float x = static_cast<float>(bits < 8 ? bits : bits - 16) *
                  scales[static_cast<std::size_t>((row - begin) * groups + c / (in / groups))];
        if (!of_inputs->empty()) x *= (*of_inputs)[static_cast<std::size_t>(c)];
        out[static_cast<std::size_t>((row - begin) * in + c)] = x;
      }
  };
  return weight;
}

}  // namespace

std::vector<PackedWeight> byte_weights(const TensorSource& stored) {
  constexpr std::string_view kPacked = "weight_packed";
  std::vector<PackedWeight> weights;
  for (const auto& [key, tensor] : stored.tensors()) {
    const bool packed = key.ends_with(kPacked);
    if (tensor.dtype != DType::u8 || (!packed && !key.ends_with(".weight"))) continue;
    if (tensor.shape.rank() != 2)
      fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.dtype_name, " ",
           tensor.shape, ", expected a matrix");
    const std::string name = packed ? key.substr(0, key.size() - 7) : key;
    if (stored.at(name + "_scale").dtype == DType::u8)
      weights.push_back(mxfp4_weight(stored, key, name));
    else if (packed || stored.find(key + "_scale_2") != nullptr)
      weights.push_back(nvfp4_weight(stored, key, name));
    else
      weights.push_back(int4_weight(stored, key));
  }
  return weights;
}

}  // namespace mt
