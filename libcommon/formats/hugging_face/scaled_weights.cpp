#include "formats/hugging_face/scaled_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/half.h"
#include "kernels/packed_rows.h"

namespace mt {
namespace {

constexpr std::string_view kWeight = "weight";

// What multiplies the matrix's elements.
struct Scales {
  std::int64_t rows = 1, columns = 1;  // elements that share one
  std::int64_t stride = 0;             // scales of a row of blocks; 0: one of all rows
  std::vector<float> scale, zero;      // zero: none, or as many
  std::vector<float> of_inputs;        // none, or one a column

  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row / rows * stride + column / columns);
  }
};

struct Matrix {
  const TensorSource& stored;
  std::string key;
  DType dtype;
  std::int64_t out, in;
};

// Both axes without those of one element between them: [a, 1, b, 1] is [a, b].
std::vector<std::int64_t> axes_of(const Shape& shape) {
  std::vector<std::int64_t> axes(shape.extents().begin(), shape.extents().end());
  if (axes.size() == 4 && axes[1] == 1 && axes[3] == 1) axes = {axes[0], axes[2]};
  if (axes.size() == 1) axes.push_back(1);
  if (axes.empty()) axes = {1, 1};
  return axes;
}

Scales scales_of(const Matrix& m, const DistTensor& scale, std::array<std::int64_t, 2> block) {
  Scales s;
  const std::vector<std::int64_t> axes = axes_of(scale.shape);
  const bool flat = axes.size() == 2;
  if (scale.shape.numel() == 1) {
    s.rows = m.out, s.columns = m.in;
  } else if (flat && axes[0] == m.out && axes[1] == 1) {
    s.rows = 1, s.columns = m.in;
  } else if (flat && axes[0] == blocks_of(m.out, block[0]) &&
             axes[1] == blocks_of(m.in, block[1])) {
    s.rows = block[0], s.columns = block[1];
  } else if (flat && axes[0] == m.out && axes[1] > 0 && m.in % axes[1] == 0) {
    s.rows = 1, s.columns = m.in / axes[1];
  } else {
    fail(Exit::bad_data, m.stored.path(), ": tensor ", scale.key, " is ", scale.shape,
         ", which does not scale ", m.key, " of ", Shape{m.out, m.in}, " in blocks of ",
         Shape{block[0], block[1]});
  }
  s.stride = flat ? axes[1] : 1;
  const Shape origin = origin_of(scale.shape.rank());
  if (m.dtype == DType::f8 && scale.dtype == DType::u8) {
    for (const std::uint8_t bits :
         stored_block<std::uint8_t>(m.stored, scale.key, DType::u8, origin, scale.shape))
      s.scale.push_back(bits == 255 ? std::numeric_limits<float>::quiet_NaN()
                                    : std::ldexp(1.F, bits - 127));
    return s;
  }
  expect_floats(m.stored, scale.key);
  s.scale = stored_floats(m.stored, scale.key, origin, scale.shape);
  return s;
}

// A tensor beside the matrix, of one of some shapes; empty if there is none.
std::vector<float> beside(const Matrix& m, const std::string& key, std::int64_t count,
                          std::vector<std::string>& parts) {
  const DistTensor* const tensor = m.stored.find(key);
  if (tensor == nullptr) return {};
  if (tensor->shape.numel() != count)
    fail(Exit::bad_data, m.stored.path(), ": tensor ", key, " is ", tensor->shape, ", expected ",
         count, " elements");
  parts.push_back(key);
  return stored_floats(m.stored, key, origin_of(tensor->shape.rank()), tensor->shape);
}

// E4M3's numbers by their bits.
const std::vector<float>& eight_bits() {
  static const std::vector<float> numbers = [] {
    std::vector<float> all(256);
    for (int i = 0; i < 256; ++i) {
      Fp8 number;
      number.bits = static_cast<std::uint8_t>(i);
      all[static_cast<std::size_t>(i)] = static_cast<float>(number);
    }
    return all;
  }();
  return numbers;
}

void unpack_rows(const Matrix& m, const Scales& s, std::int64_t begin, std::int64_t end,
                 std::span<float> out) {
  const Shape offset{begin, 0}, shape{end - begin, m.in};
  if (m.dtype == DType::f8) {
    const auto bits = stored_block<std::uint8_t>(m.stored, m.key, DType::f8, offset, shape);
    for (std::size_t i = 0; i < bits.size(); ++i) out[i] = eight_bits()[bits[i]];
  } else {
    const auto whole = stored_block<std::int8_t>(m.stored, m.key, DType::i8, offset, shape);
    std::ranges::copy(whole, out.begin());
  }
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t c = 0; c < m.in; ++c) {
      float& x = out[static_cast<std::size_t>((row - begin) * m.in + c)];
      const std::size_t at = s.at(row, c);
      if (!s.zero.empty()) x -= s.zero[at];
      x *= s.scale[at];
      if (!s.of_inputs.empty()) x *= s.of_inputs[static_cast<std::size_t>(c)];
    }
}

// The blocks that have their codes and scales as they are stored.
std::optional<BlockType> block_of(const Matrix& m, const Scales& s) {
  const std::int64_t size = form_of(BlockType::e4m3).elements;
  if (!s.zero.empty() || !s.of_inputs.empty() || m.in < 1 || m.in % size != 0) return {};
  if (s.columns % size != 0 && s.columns < m.in) return {};
  return m.dtype == DType::f8 ? BlockType::e4m3 : BlockType::int8;
}

void fill_blocks(const Matrix& m, const Scales& s, std::int64_t begin, std::int64_t end,
                 std::uint8_t* out) {
  const BlockForm form = form_of(BlockType::e4m3);
  const bool fp8 = m.dtype == DType::f8;
  const auto codes =
      fp8 ? stored_block<std::uint8_t>(m.stored, m.key, DType::f8, {begin, 0}, {end - begin, m.in})
          : std::vector<std::uint8_t>();
  const auto whole =
      fp8 ? std::vector<std::int8_t>()
          : stored_block<std::int8_t>(m.stored, m.key, DType::i8, {begin, 0}, {end - begin, m.in});
  const void* const bytes = fp8 ? static_cast<const void*>(codes.data()) : whole.data();
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t c = 0; c < m.in; c += form.elements, out += form.bytes) {
      const float scale = s.scale[s.at(row, c)];
      std::memcpy(out, &scale, sizeof scale);
      std::memcpy(out + 4, static_cast<const std::uint8_t*>(bytes) + (row - begin) * m.in + c,
                  static_cast<std::size_t>(form.elements));
      if (!std::isfinite(scale) ||
          (fp8 && std::any_of(out + 4, out + form.bytes, [](auto x) { return (x & 127) == 127; })))
        fail(Exit::bad_data, m.stored.path(), ": tensor ", m.key, ": row ", row,
             " has a number that is not finite");
    }
}

}  // namespace

std::vector<PackedWeight> scaled_weights(const TensorSource& stored, const Quantization& q) {
  std::vector<PackedWeight> weights;
  for (const auto& [key, tensor] : stored.tensors()) {
    if (!key.ends_with(kWeight) || (tensor.dtype != DType::f8 && tensor.dtype != DType::i8))
      continue;
    if (tensor.shape.rank() != 2)
      fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", tensor.dtype_name, " ",
           tensor.shape, ", expected a matrix");
    const Matrix m{stored, key, *tensor.dtype, tensor.shape[0], tensor.shape[1]};
    const std::string module = key.substr(0, key.size() - kWeight.size());
    const DistTensor* const inverse = stored.find(key + "_scale_inv");
    const DistTensor& scale = inverse != nullptr ? *inverse : stored.at(key + "_scale");
    std::vector<std::string> parts{key, scale.key};
    const auto scales = std::make_shared<Scales>(scales_of(m, scale, q.block));
    if (q.zeros && m.dtype == DType::i8) stored.at(key + "_zero_point");
    scales->zero = beside(m, key + "_zero_point", scale.shape.numel(), parts);
    scales->of_inputs = beside(m, module + "pre_quant_scale", m.in, parts);
    weights.push_back(
        {.name = key,
         .shape = tensor.shape,
         .parts = std::move(parts),
         .unpack = [m, scales](std::int64_t begin, std::int64_t end,
                               std::span<float> out) { unpack_rows(m, *scales, begin, end, out); },
         .block = block_of(m, *scales),
         .blocks = [m, scales](std::int64_t begin, std::int64_t end,
                               std::uint8_t* out) { fill_blocks(m, *scales, begin, end, out); }});
  }
  return weights;
}

}  // namespace mt
