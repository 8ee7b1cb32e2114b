#include "formats/hugging_face/word_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/half.h"
#include "kernels/packed_rows.h"

namespace mt {
namespace {

// All of a tensor whose shape must be this.
template <class T>
std::vector<T> whole(const TensorSource& stored, const std::string& key, DType dtype,
                     const Shape& shape) {
  expect_shape(stored, key, shape);
  return stored_block<T>(stored, key, dtype, origin_of(shape.rank()), shape);
}

std::vector<float> whole_floats(const TensorSource& stored, const std::string& key,
                                const Shape& shape) {
  expect_shape(stored, key, shape);
  expect_floats(stored, key);
  return stored_floats(stored, key, origin_of(shape.rank()), shape);
}

// The matrix of a name that ends so, [rows, columns] of i32.
const Shape& words_of(const TensorSource& stored, const DistTensor& tensor) {
  if (tensor.dtype != DType::i32 || tensor.shape.rank() != 2)
    fail(Exit::bad_data, stored.path(), ": tensor ", tensor.key, " is ", tensor.dtype_name, " ",
         tensor.shape, ", expected a matrix of int32");
  return tensor.shape;
}

// Element i of words of `bits` bits an element.
unsigned element(std::int32_t word, std::int64_t i, int bits) {
  return static_cast<std::uint32_t>(word) >> (i * bits) & ((1U << bits) - 1);
}

// The outputs and inputs that a tensor says a matrix has, whose words are not whole.
std::array<std::int64_t, 2> extents_in(const TensorSource& stored, const std::string& key) {
  std::array<std::int64_t, 2> extents;
  if (stored.at(key).dtype == DType::i32)
    std::ranges::copy(whole<std::int32_t>(stored, key, DType::i32, {2}), extents.begin());
  else
    std::ranges::copy(whole<std::int64_t>(stored, key, DType::i64, {2}), extents.begin());
  return extents;
}

// Exit::bad_data where the settings say another number of groups.
void check_groups(const TensorSource& stored, const Quantization& q, std::int64_t in,
                  std::int64_t groups, const std::string& scales) {
  const auto fits = [&](std::int64_t size) {
    return groups == (size == 0 ? 1 : blocks_of(in, size));
  };
  if (!q.groups.empty() && std::ranges::none_of(q.groups, fits))
    fail(Exit::bad_data, stored.path(), ": tensor ", scales, " has ", groups, " groups of ", in,
         " inputs, but quantization_config says group_size ", q.groups[0] == 0 ? -1 : q.groups[0]);
}

// The number of each input's group.  Columns that are not in their order have a tensor that says
// it.
std::vector<std::int32_t> groups_of(const TensorSource& stored, const Quantization& q,
                                    const std::string& key, std::int64_t in, std::int64_t groups,
                                    const std::string& scales) {
  std::vector<std::int32_t> group;
  check_groups(stored, q, in, groups, scales);
  if (q.ordered) stored.at(key);
  if (stored.find(key) != nullptr) {
    group = whole<std::int32_t>(stored, key, DType::i32, {in});
    for (const std::int32_t g : group)
      if (g < 0 || g >= groups)
        fail(Exit::bad_data, stored.path(), ": tensor ", key, " says group ", g, ", but ", scales,
             " has ", groups);
    return group;
  }
  if (groups < 1 || in % groups != 0)
    fail(Exit::bad_data, stored.path(), ": tensor ", scales, " has ", groups, " groups of ", in,
         " inputs");
  for (std::int64_t i = 0; i < in; ++i)
    group.push_back(static_cast<std::int32_t>(i / (in / groups)));
  return group;
}

std::string module_of(const std::string& key, std::string_view ending) {
  return key.substr(0, key.size() - ending.size());
}

// A matrix [out, in] as (q - zero) scale, the latter two [groups, out].
struct Grouped {
  std::int64_t out = 0, in = 0;
  std::vector<std::int32_t> group = {};  // of each input
  std::vector<float> scale = {}, zero = {};
  // Fills `q` with the elements of the rows [begin, end).
  std::function<void(std::int64_t begin, std::int64_t end, std::span<float> q)> elements = {};
  int bits = 4;
  DType scale_dtype = DType::f32;  // that the scales are stored in
};

// The columns that share a scale, where these lie behind one another and are as many; else 0.
std::int64_t even_group(const Grouped& m) {
  if (m.out < 1 || m.in < 1 || m.scale.empty()) return 0;
  const std::int64_t groups = std::ssize(m.scale) / m.out;
  if (m.in % groups != 0) return 0;
  for (std::int64_t i = 0; i < m.in; ++i)
    if (m.group[static_cast<std::size_t>(i)] != i / (m.in / groups)) return 0;
  return m.in / groups;
}

// The blocks that have their codes and scales as they are stored.
std::optional<BlockType> block_of(const Grouped& m) {
  const std::int64_t size = even_group(m);
  if (m.bits != 4 || size_of(m.scale_dtype) != 2 || size == 0) return {};
  if (size % 128 == 0) return BlockType::int4_128;
  if (size % 64 == 0) return BlockType::int4_64;
  return size % 32 == 0 ? std::optional(BlockType::int4_32) : std::nullopt;
}

// Two bytes of a scale, the code that is zero, and of which type the scale is; then the codes.
void fill_block(std::uint8_t* block, const float* q, std::int64_t size, float scale, float zero,
                bool is_bf16) {
  const std::uint16_t bits = is_bf16 ? Bf16(scale).bits : Fp16(scale).bits;
  std::memcpy(block, &bits, sizeof bits);
  block[2] = static_cast<std::uint8_t>(zero);
  block[3] = is_bf16 ? 1 : 0;
  for (std::int64_t i = 0; i < size / 2; ++i) {
    const std::int64_t low = i / 16 * 32 + i % 16;
    block[4 + i] =
        static_cast<std::uint8_t>(static_cast<int>(q[low]) | static_cast<int>(q[low + 16]) << 4);
  }
}

void fill_blocks(const Grouped& m, BlockType type, const std::string& name, std::int64_t begin,
                 std::int64_t end, std::uint8_t* out) {
  const BlockForm form = form_of(type);
  std::vector<float> q(static_cast<std::size_t>((end - begin) * m.in));
  m.elements(begin, end, q);
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t c = 0; c < m.in; c += form.elements, out += form.bytes) {
      const auto at = static_cast<std::size_t>(m.group[static_cast<std::size_t>(c)] * m.out + row);
      if (!std::isfinite(m.scale[at]))
        fail(Exit::bad_data, name, ": a scale of row ", row, " is no finite number");
      fill_block(out, q.data() + (row - begin) * m.in + c, form.elements, m.scale[at], m.zero[at],
                 m.scale_dtype == DType::bf16);
    }
}

PackedWeight weight_of(const std::string& module, std::vector<std::string> parts, Grouped matrix) {
  const auto m = std::make_shared<const Grouped>(std::move(matrix));
  const std::optional<BlockType> block = block_of(*m);
  return {.name = module + "weight",
          .shape = {m->out, m->in},
          .parts = std::move(parts),
          .unpack =
              [m](std::int64_t begin, std::int64_t end, std::span<float> out) {
                m->elements(begin, end, out);
                auto x = out.begin();
                for (std::int64_t row = begin; row < end; ++row)
                  for (const std::int32_t group : m->group) {
                    const auto at = static_cast<std::size_t>(group * m->out + row);
                    *x = (*x - m->zero[at]) * m->scale[at];
                    ++x;
                  }
              },
          .block = block,
          .blocks = [m, block, name = module + "weight"](
                        std::int64_t begin, std::int64_t end,
                        std::uint8_t* out) { fill_blocks(*m, *block, name, begin, end, out); }};
}

constexpr std::string_view kQweight = "qweight", kPacked = "weight_packed";
constexpr int kAwqColumns[] = {0, 2, 4, 6, 1, 3, 5, 7}, kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

std::vector<PackedWeight> awq_weights(const TensorSource& stored,
                                      const Quantization& quantization) {
  std::vector<PackedWeight> weights;
  for (const auto& [key, tensor] : stored.tensors()) {
    if (!key.ends_with(kQweight)) continue;
    const Shape& words = words_of(stored, tensor);
    const std::string module = module_of(key, kQweight);
    Grouped m{.out = words[1] * 8, .in = words[0]};
    const std::string scales = module + "scales";
    const DistTensor& of_scales = stored.at(scales);
    const std::int64_t groups = of_scales.shape.rank() > 0 ? of_scales.shape[0] : 0;
    m.scale = whole_floats(stored, scales, {groups, m.out});
    m.scale_dtype = of_scales.dtype.value_or(DType::f32);
    m.group = groups_of(stored, quantization, "", m.in, groups, scales);
    std::vector<std::string> parts{key, scales};
    m.zero.resize(m.scale.size());
    const std::string zeros = module + "qzeros";
    parts.push_back(zeros);
    const auto packed = whole<std::int32_t>(stored, zeros, DType::i32, {groups, words[1]});
    for (std::size_t w = 0; w < packed.size(); ++w)
      for (int k = 0; k < 8; ++k)
        m.zero[w * 8 + static_cast<std::size_t>(kAwqColumns[k])] =
            static_cast<float>(element(packed[w], k, 4));
    m.elements = [&stored, key, in = m.in](std::int64_t begin, std::int64_t end,
                                           std::span<float> q) {
      const std::int64_t first = begin / 8, count = (end + 7) / 8 - first;
      const auto block =
          stored_block<std::int32_t>(stored, key, DType::i32, {0, first}, {in, count});
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t input = 0; input < in; ++input)
          q[static_cast<std::size_t>((row - begin) * in + input)] = static_cast<float>(
              element(block[static_cast<std::size_t>(input * count + row / 8 - first)],
                      kAwqPlaces[row % 8], 4));
    };
    weights.push_back(weight_of(module, std::move(parts), std::move(m)));
  }
  return weights;
}

std::vector<PackedWeight> gptq_weights(const TensorSource& stored, const Quantization& q) {
  const int bits = q.bits.front();
  std::vector<PackedWeight> weights;
  const std::int64_t per = 32 / bits;
  for (const auto& [key, tensor] : stored.tensors()) {
    if (!key.ends_with(kQweight)) continue;
    const Shape& words = words_of(stored, tensor);
    const std::string module = module_of(key, kQweight);
    Grouped m{.out = words[1], .in = words[0] * per};
    const std::string scales = module + "scales", zeros = module + "qzeros", g = module + "g_idx";
    const DistTensor& of_scales = stored.at(scales);
    const std::int64_t groups = of_scales.shape.rank() > 0 ? of_scales.shape[0] : 0;
    m.scale = whole_floats(stored, scales, {groups, m.out});
    m.scale_dtype = of_scales.dtype.value_or(DType::f32);
    m.bits = bits;
    m.group = groups_of(stored, q, g, m.in, groups, scales);
    std::vector<std::string> parts{key, scales, zeros};
    if (stored.find(g) != nullptr) parts.push_back(g);
    const std::int64_t columns = (m.out + per - 1) / per;
    const auto packed = whole<std::int32_t>(stored, zeros, DType::i32, {groups, columns});
    for (std::int64_t i = 0; i < groups * m.out; ++i) {
      const std::int64_t row = i % m.out;
      const std::int32_t word = packed[static_cast<std::size_t>(i / m.out * columns + row / per)];
      m.zero.push_back(static_cast<float>(element(word, row % per, bits)) +
                       (q.zeros_less_one ? 1.F : 0.F));
    }
    m.elements = [&stored, key, words, bits, per](std::int64_t begin, std::int64_t end,
                                                  std::span<float> codes) {
      const std::int64_t count = end - begin;
      const auto block =
          stored_block<std::int32_t>(stored, key, DType::i32, {0, begin}, {words[0], count});
      const std::int64_t in = words[0] * per;
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t input = 0; input < in; ++input)
          codes[static_cast<std::size_t>((row - begin) * in + input)] = static_cast<float>(
              element(block[static_cast<std::size_t>(input / per * count + row - begin)],
                      input % per, bits));
    };
    weights.push_back(weight_of(module, std::move(parts), std::move(m)));
  }
  return weights;
}

std::vector<PackedWeight> compressed_words(const TensorSource& stored, const Quantization& q) {
  const std::vector<int>& bits = q.bits;
  std::vector<PackedWeight> weights;
  for (const auto& [key, tensor] : stored.tensors()) {
    if (!key.ends_with(kPacked) || tensor.dtype == DType::u8) continue;  // byte_weights.h
    const Shape& words = words_of(stored, tensor);
    const std::string module = module_of(key, "packed"), scales = module + "scale",
                      shape = module + "shape", g = module + "g_idx", zeros = module + "zero_point";
    const auto [out, in] = extents_in(stored, shape);
    Grouped m{.out = out, .in = in};
    constexpr int kMost = 16;  // numbers of a word
    int width = 0;
    bool several = false;
    if (words[0] == out && in >= 1 && in <= words[1] * kMost)
      for (const int b : bits)
        if (b != width && words[1] == (in + 32 / b - 1) / (32 / b)) {
          several = width != 0;
          width = b;
        }
    if (width == 0 || several)
      fail(Exit::bad_data, stored.path(), ": tensor ", key, " is ", words,
           several ? ", which may hold numbers of several widths of" : ", which does not hold",
           " the matrix of [", out, ", ", in, "] of ", shape);
    const std::int64_t per = 32 / width;
    const DistTensor& of_scales = stored.at(scales);
    const std::int64_t groups = of_scales.shape.rank() == 2 ? of_scales.shape[1] : 1;
    const auto by_row = whole_floats(stored, scales, {m.out, groups});
    m.scale_dtype = of_scales.dtype.value_or(DType::f32);
    m.bits = width;
    m.group = groups_of(stored, q, g, m.in, groups, scales);
    std::vector<std::string> parts{key, scales, shape};
    if (stored.find(g) != nullptr) parts.push_back(g);
    std::vector<std::int32_t> packed;
    if (q.zeros || stored.find(zeros) != nullptr) {
      packed = whole<std::int32_t>(stored, zeros, DType::i32, {(m.out + per - 1) / per, groups});
      parts.push_back(zeros);
    }
    for (std::int64_t i = 0; i < groups * m.out; ++i) {
      const std::int64_t group = i / m.out, row = i % m.out;
      m.scale.push_back(by_row[static_cast<std::size_t>(row * groups + group)]);
      m.zero.push_back(static_cast<float>(
          packed.empty() ? 1U << (width - 1)
                         : element(packed[static_cast<std::size_t>(row / per * groups + group)],
                                   row % per, width)));
    }
    m.elements = [&stored, key, columns = words[1], in = m.in, width, per](
                     std::int64_t begin, std::int64_t end, std::span<float> codes) {
      const auto block =
          stored_block<std::int32_t>(stored, key, DType::i32, {begin, 0}, {end - begin, columns});
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t input = 0; input < in; ++input)
          codes[static_cast<std::size_t>((row - begin) * in + input)] = static_cast<float>(
              element(block[static_cast<std::size_t>((row - begin) * columns + input / per)],
                      input % per, width));
    };
    weights.push_back(
        weight_of(module.substr(0, module.size() - 7), std::move(parts), std::move(m)));
  }
  return weights;
}

}  // namespace mt
