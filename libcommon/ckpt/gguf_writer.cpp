#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "ckpt/gguf.h"
#include "ckpt/gguf_quantize.h"

namespace mt {

constexpr std::uint64_t kAlignment = 32;

enum Value : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };

template <class T>
static void put(std::string& bytes, T value) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

static void put_text(std::string& bytes, std::string_view text) {
  put<std::uint64_t>(bytes, text.size());
  bytes += text;
}

static std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t gguf_bytes(GgufType type, const Shape& shape) {
  const auto count = static_cast<std::uint64_t>(shape.numel());
  if (const GgufBlocks* const of = gguf_blocks(type))
    return count / static_cast<std::uint64_t>(of->elements) * of->bytes;
  return count * (type == GgufType::f32 ? 4 : 2);
}

// --- Key-values ---------------------------------------------------------------------------------

void GgufKeyValues::begin(std::string_view key, std::uint32_t type) {
  put_text(bytes_, key);
  put(bytes_, type);
  ++count_;
}

void GgufKeyValues::integer(std::string_view key, std::uint32_t value) {
  begin(key, Value::u32);
  put(bytes_, value);
}

void GgufKeyValues::real(std::string_view key, float value) {
  begin(key, Value::f32);
  put(bytes_, value);
}

void GgufKeyValues::flag(std::string_view key, bool value) {
  begin(key, Value::boolean);
  put<std::uint8_t>(bytes_, value);
}

void GgufKeyValues::text(std::string_view key, std::string_view value) {
  begin(key, Value::string);
  put_text(bytes_, value);
}

template <class T, class Put>
static void put_array(std::string& bytes, Value type, const std::vector<T>& values,
                      const Put& put_one) {
  put<std::uint32_t>(bytes, type);
  put<std::uint64_t>(bytes, values.size());
  for (const T& value : values) put_one(bytes, value);
}

void GgufKeyValues::texts(std::string_view key, const std::vector<std::string>& values) {
  begin(key, Value::array);
  put_array(bytes_, Value::string, values, put_text);
}

void GgufKeyValues::integers(std::string_view key, const std::vector<std::int32_t>& values) {
  begin(key, Value::array);
  put_array(bytes_, Value::i32, values, put<std::int32_t>);
}

void GgufKeyValues::reals(std::string_view key, const std::vector<float>& values) {
  begin(key, Value::array);
  put_array(bytes_, Value::f32, values, put<float>);
}

// --- Files --------------------------------------------------------------------------------------

GgufWriter::GgufWriter(const std::string& path, const GgufKeyValues& key_values,
                       const std::vector<Entry>& entries)
    : file_(File::create(path)) {
  std::string header = "GGUF";
  put<std::uint32_t>(header, 3);
  put<std::uint64_t>(header, entries.size());
  put<std::uint64_t>(header, key_values.count());
  header += key_values.bytes();
  std::uint64_t offset = 0;
  for (const Entry& entry : entries) {
    if (!places_.emplace(entry.name, Place{offset, entry.type, entry.shape}).second)
      fail(Exit::internal, path, ": two tensors ", entry.name);
    put_text(header, entry.name);
    put<std::uint32_t>(header, static_cast<std::uint32_t>(entry.shape.rank()));
    for (int axis = entry.shape.rank(); axis-- > 0;)
      put<std::uint64_t>(header, static_cast<std::uint64_t>(entry.shape[axis]));
    put(header, static_cast<std::uint32_t>(entry.type));
    put(header, offset);
    offset += padded(gguf_bytes(entry.type, entry.shape));
  }
  header.resize(padded(header.size()));
  for (auto& [name, place] : places_) place.offset += header.size();
  file_.write(header);
}

void GgufWriter::write(const std::string& name, ConstTensor tensor,
                       std::span<const float> importance) {
  const Place& place = places_.at(name);
  write_at(name, place, tensor, importance);
  pad(place);
}

void GgufWriter::write_part(const std::string& name, std::int64_t part, ConstTensor tensor,
                            std::span<const float> importance) {
  const Place& whole = places_.at(name);
  Place place = whole;
  place.shape = Shape(whole.shape.extents().subspan(1));
  place.offset += static_cast<std::uint64_t>(part) * gguf_bytes(place.type, place.shape);
  write_at(name, place, tensor, importance);
  if (part == whole.shape[0] - 1) pad(whole);
}

void GgufWriter::pad(const Place& place) {
  const std::uint64_t size = gguf_bytes(place.type, place.shape);
  const std::string padding(padded(size) - size, '\0');
  file_.write_at(place.offset + size, as_bytes(padding));
}

void GgufWriter::write_at(const std::string& name, const Place& place, ConstTensor tensor,
                          std::span<const float> importance) {
  const GgufBlocks* const of = gguf_blocks(place.type);
  const DType expected = place.type == GgufType::f16    ? DType::f16
                         : place.type == GgufType::bf16 ? DType::bf16
                                                        : DType::f32;
  if (tensor.dtype() != expected || !(tensor.shape() == place.shape))
    fail(Exit::internal, name, ": ", name_of(tensor.dtype()), tensor.shape(), ", expected ",
         name_of(expected), place.shape);
  if (of != nullptr) {
    const std::int64_t row = tensor.shape()[-1],
                       at_once = std::max<std::int64_t>(1, (1 << 20) / row) * row;  // elements
    const auto* const stored = static_cast<const std::byte*>(tensor.data());  // at any address
    std::vector<float> values;
    std::vector<std::byte> blocks;
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += at_once) {
      const std::int64_t count = std::min(at_once, tensor.numel() - begin);
      values.resize(static_cast<std::size_t>(count));
      std::memcpy(values.data(), stored + begin * static_cast<std::int64_t>(sizeof(float)),
                  values.size() * sizeof(float));
      blocks.resize(static_cast<std::size_t>(count / of->elements) * of->bytes);
      quantize(of->type, blocks.data(), values, importance);
      file_.write_at(place.offset + gguf_bytes(place.type, {begin}), blocks);
    }
  } else {
    file_.write_at(place.offset, {static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  }
}

void GgufWriter::close() {
  file_.sync();
  file_.close();
}

}  // namespace mt
