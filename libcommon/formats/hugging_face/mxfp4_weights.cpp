#include "formats/hugging_face/mxfp4_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "kernels/packed_rows.h"

namespace mt {

static constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
static constexpr std::int64_t kBlock = 32;

float scaled_e2m1(unsigned bits, std::uint8_t scale) {
  return scale == 255 ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(kE2m1[bits], scale - 127);
}

void lay_out_e2m1(std::uint8_t* to, std::span<const std::uint8_t> codes) {
  constexpr std::size_t kHalf = kBlock / 2;
  const auto code = [&](std::size_t i) { return codes[i / 2] >> (i % 2 * 4) & 15U; };
  for (std::size_t i = 0; i < 2 * codes.size(); i += 2 * kHalf)
    for (std::size_t j = 0; j < kHalf; ++j)
      *to++ = static_cast<std::uint8_t>(code(i + j) | code(i + kHalf + j) << 4);
}

bool lay_out_mxfp4(std::uint8_t* to, std::uint8_t scale, std::span<const std::uint8_t> codes) {
  *to = scale;
  lay_out_e2m1(to + 1, codes);
  return std::ranges::all_of(codes, [&](unsigned both) {
    return std::isfinite(scaled_e2m1(both & 15, scale)) &&
           std::isfinite(scaled_e2m1(both >> 4, scale));
  });
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

// Those of rows of all experts' transposed matrices.
static void fill_blocks(const TensorSource& stored, const std::string& name, const Shape& shape,
                        std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  const std::int64_t columns = shape[2], groups = shape[1] / kBlock;
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t expert = row / columns, first = row % columns,
                       count = std::min(end - row, columns - first);
    const auto codes =
        stored_block<std::uint8_t>(stored, concat(name, kBlocks), DType::u8, {expert, first, 0, 0},
                                   {1, count, groups, kBlock / 2});
    const auto scales = stored_block<std::uint8_t>(stored, concat(name, kScales), DType::u8,
                                                   {expert, first, 0}, {1, count, groups});
    for (std::size_t i = 0; i < scales.size(); ++i, out += 1 + kBlock / 2)
      if (!lay_out_mxfp4(out, scales[i], std::span(codes).subspan(i * kBlock / 2, kBlock / 2)))
        fail(Exit::bad_data, stored.path(), ": tensor ", name, kBlocks, ": expert ", expert,
             " has a number that is not finite");
    row += count;
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
    weights.push_back(
        {.name = name,
         .shape = shape,
         .parts = {key, scales.key},
         .unpack =
             [&stored, name, shape](std::int64_t begin, std::int64_t end, std::span<float> out) {
               unpack_experts(stored, name, shape, begin, end, out);
             },
         .block = BlockType::mxfp4,
         .of_columns = true,
         .blocks = [&stored, name, shape](
                       std::int64_t begin, std::int64_t end,
                       std::uint8_t* out) { fill_blocks(stored, name, shape, begin, end, out); }});
  }
  return weights;
}

}  // namespace mt
