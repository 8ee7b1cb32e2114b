#include "formats/hugging_face/mxfp4_weights.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace mt {

static constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
static constexpr std::int64_t kBlock = 32;

float scaled_e2m1(unsigned bits, std::uint8_t scale) {
  return scale == 255 ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(kE2m1[bits], scale - 127);
}

// An expert's blocks have its matrix transposed.
static void unpack_experts(const TensorSource& stored, const std::string& name, const Shape& shape,
                           std::int64_t begin, std::int64_t end, std::span<float> out) {
  const std::int64_t in = shape[1], columns = shape[2], groups = in / kBlock;
  for (std::int64_t expert = begin; expert < end; ++expert) {
    const auto blocks =
        stored_block<std::uint8_t>(stored, concat(name, kBlocks), DType::u8, {expert, 0, 0, 0},
                                   {1, columns, groups, kBlock / 2});
    const auto scales = stored_block<std::uint8_t>(stored, concat(name, kScales), DType::u8,
                                                   {expert, 0, 0}, {1, columns, groups});
    float* const made = out.data() + (expert - begin) * in * columns;
    for (std::int64_t column = 0; column < columns; ++column)
      for (std::int64_t r = 0; r < in; ++r) {
        const auto i = static_cast<std::size_t>(column * in + r);
        const unsigned bits = blocks[i / 2] >> (i % 2 * 4) & 15U;
        made[r * columns + column] =
            scaled_e2m1(bits, scales[i / static_cast<std::size_t>(kBlock)]);
      }
  }
}

std::vector<PackedWeight> mxfp4_weights(const TensorSource& stored) {
  std::vector<PackedWeight> weights;
  for (const auto& [key, blocks] : stored.tensors()) {
    if (!key.ends_with(kBlocks) || blocks.dtype != DType::u8) continue;
    const std::string name = key.substr(0, key.size() - kBlocks.size());
    const DistTensor& scales = stored.at(concat(name, kScales));
    const Shape& packed = blocks.shape;
    if (packed.rank() != 4 || packed[3] != kBlock / 2)
      fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", packed,
           ", expected [experts, out, in / 32, 16]");
    const Shape expected{packed[0], packed[1], packed[2]};
    if (scales.dtype != DType::u8 || !(scales.shape == expected))
      fail(Exit::bad_data, stored.path(), ": tensor ", scales.key, " is ", scales.dtype_name, " ",
           scales.shape, ", expected uint8 ", expected);
    const Shape shape{packed[0], packed[2] * kBlock, packed[1]};
    weights.push_back({.name = name,
                       .shape = shape,
                       .parts = {key, scales.key},
                       .unpack = [&stored, name, shape](std::int64_t begin, std::int64_t end,
                                                        std::span<float> out) {
                         unpack_experts(stored, name, shape, begin, end, out);
                       }});
  }
  return weights;
}

}  // namespace mt
