#include "formats/hugging_face/bitsandbytes_weights.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";

std::vector<float> floats(const TensorSource& stored, const std::string& key, std::int64_t count) {
  expect_shape(stored, key, {count});
  return stored_floats(stored, key, {0}, {count});
}

// What X.weight.quant_state.bitsandbytes__nf4 says.
struct State {
  Shape shape;
  std::int64_t block, nested_block;
  float nested_offset;
};

State read_state(const TensorSource& stored, const std::string& key) {
  const std::string where = concat(stored.path(), ": tensor ", key);
  const Shape& size = stored.at(key).shape;
  constexpr std::int64_t kMostBytes = 1 << 16;
  if (size.rank() != 1 || size[0] > kMostBytes)
    fail(Exit::bad_data, where, ": is ", size, ", expected the bytes of JSON");
  const auto bytes = stored_block<std::uint8_t>(stored, key, DType::u8, {0}, size);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto error = parser.parse(text.data(), text.size()).get(root))
    fail_json(text, where, error);
  const JsonObject from(root, where);
  std::vector<std::int64_t> extents;
  std::int64_t numel = 1;
  simdjson::dom::array list;
  if (from.member("shape").get(list) != simdjson::SUCCESS) from.refuse("shape: expected sizes");
  for (const simdjson::dom::element extent : list) {
    constexpr std::int64_t kMost = 1LL << 50;
    std::int64_t n = 0;
    if (extent.get(n) != simdjson::SUCCESS || n < 1 || __builtin_mul_overflow(numel, n, &numel) ||
        numel > kMost)
      from.refuse("shape: expected sizes");
    extents.push_back(n);
  }
  if (extents.empty() || extents.size() > static_cast<std::size_t>(Shape::kMaxRank))
    from.refuse("shape: expected sizes");
  const auto block = [&](const char* name) {
    constexpr std::int64_t kMost = 1 << 16;
    const std::int64_t found = from.number(name, kMost);
    if (found < 1) from.refuse(name, ": expected 1 or more");
    return found;
  };
  double offset = 0;
  if (from.has("nested_offset") &&
      (from.member("nested_offset").get(offset) != simdjson::SUCCESS || !std::isfinite(offset)))
    from.refuse("nested_offset: expected a number");
  return {Shape(std::span<const std::int64_t>(extents)), block("blocksize"),
          from.has("nested_blocksize") ? block("nested_blocksize") : 1, static_cast<float>(offset)};
}

// Reads what the elements of each block are multiplied by.
std::vector<float> scales_of(const TensorSource& stored, const std::string& weight,
                             const State& state, std::int64_t blocks,
                             std::vector<std::string>& parts) {
  const std::string absmax = weight + ".absmax", map = weight + ".nested_quant_map",
                    nested = weight + ".nested_absmax";
  parts.push_back(absmax);
  if (stored.at(absmax).dtype != DType::u8) return floats(stored, absmax, blocks);
  parts.insert(parts.end(), {map, nested});
  expect_shape(stored, absmax, {blocks});
  const auto codes = stored_block<std::uint8_t>(stored, absmax, DType::u8, {0}, {blocks});
  const std::vector<float> numbers = floats(stored, map, 256),
                           of_codes =
                               floats(stored, nested,
                                      (blocks + state.nested_block - 1) / state.nested_block);
  std::vector<float> scales(codes.size());
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = numbers[codes[i]] * of_codes[i / static_cast<std::size_t>(state.nested_block)] +
                state.nested_offset;
  return scales;
}

PackedWeight in_four_bits(const TensorSource& stored, const std::string& key,
                          const std::string& weight) {
  const State state = read_state(stored, key);
  const std::string map = weight + ".quant_map";
  const std::int64_t numel = state.shape.numel(), bytes = (numel + 1) / 2;
  if (const Shape& found = stored.at(weight).shape; found.numel() != bytes || found.rank() == 0)
    fail(Exit::bad_data, stored.path(), ": tensor ", weight, " is ", found, ", expected ", bytes,
         " bytes for ", state.shape);
  PackedWeight made{
      .name = weight, .shape = state.shape, .parts = {weight, key, map}, .unpack = {}};
  const std::vector<float> scales =
      scales_of(stored, weight, state, (numel + state.block - 1) / state.block, made.parts);
  made.unpack = [&stored, weight, state, scales, numbers = floats(stored, map, 16)](
                    std::int64_t begin, std::int64_t end, std::span<float> out) {
    const std::int64_t row = state.shape.numel() / state.shape[0], first = begin * row / 2,
                       last = (end * row + 1) / 2;
    const Shape& all = stored.at(weight).shape;  // [bytes, 1], or [1, bytes]
    std::vector<std::int64_t> at(static_cast<std::size_t>(all.rank()), 0),
        extents(static_cast<std::size_t>(all.rank()), 1);
    const std::size_t axis = all[0] == 1 && all.rank() > 1 ? 1 : 0;
    at[axis] = first;
    extents[axis] = last - first;
    const auto codes = stored_block<std::uint8_t>(stored, weight, DType::u8,
                                                  Shape(std::span<const std::int64_t>(at)),
                                                  Shape(std::span<const std::int64_t>(extents)));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t element = begin * row + static_cast<std::int64_t>(i);
      const unsigned byte = codes[static_cast<std::size_t>(element / 2 - first)];
      out[i] = numbers[element % 2 == 0 ? byte >> 4 : byte & 15U] *
               scales[static_cast<std::size_t>(element / state.block)];
    }
  };
  return made;
}

PackedWeight in_eight_bits(const TensorSource& stored, const std::string& scale) {
  const std::string layer = scale.substr(0, scale.rfind('.')), weight = layer + ".weight",
                    format = layer + ".weight_format";
  const Shape shape = stored.at(weight).shape;
  if (shape.rank() != 2)
    fail(Exit::bad_data, stored.path(), ": tensor ", weight, " is ", shape, ", expected a matrix");
  PackedWeight made{.name = weight, .shape = shape, .parts = {weight, scale}, .unpack = {}};
  if (const DistTensor* const found = stored.find(format)) {
    made.parts.push_back(format);
    if (found->shape.numel() != 1 ||
        stored_floats(stored, format, origin_of(found->shape.rank()), found->shape)[0] != 0)
      fail(Exit::bad_data, stored.path(), ": tensor ", format,
           ": expected 0, whose rows lie one behind another");
  }
  made.unpack = [&stored, weight, shape, rows = floats(stored, scale, shape[0])](
                    std::int64_t begin, std::int64_t end, std::span<float> out) {
    constexpr float kStep = 7.874015718698502e-3F;  // 1 / 127, as bitsandbytes writes it
    const auto codes =
        stored_block<std::int8_t>(stored, weight, DType::i8, {begin, 0}, {end - begin, shape[1]});
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(codes[i]) *
               rows[static_cast<std::size_t>(begin) + i / static_cast<std::size_t>(shape[1])] *
               kStep;
  };
  return made;
}

}  // namespace

std::vector<PackedWeight> bitsandbytes_weights(const TensorSource& stored) {
  std::vector<PackedWeight> weights;
  for (const auto& [key, tensor] : stored.tensors()) {
    if (const std::size_t at = key.find(kState); at != std::string::npos)
      weights.push_back(in_four_bits(stored, key, key.substr(0, at)));
    else if (key.ends_with(".SCB"))
      weights.push_back(in_eight_bits(stored, key));
  }
  return weights;
}

}  // namespace mt
