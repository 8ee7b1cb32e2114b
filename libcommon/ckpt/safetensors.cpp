#include "ckpt/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <set>

#include "base/allowance.h"
#include "base/error.h"
#include "base/json_parse.h"
#include "base/lfs_pointer.h"
#include "ckpt/safetensors_types.h"
#include "ckpt/torch_file.h"

namespace mt {
namespace {

namespace dom = simdjson::dom;

constexpr std::uint64_t kMostHeader = 100'000'000;
// Bytes of memory for what is known of a tensor, and for a name that must be the only one.
constexpr std::uint64_t kTensorBytes = 640, kNameBytes = 64;

// The header's JSON, checked member by member.
class HeaderParser {
 public:
  HeaderParser(const std::string& where, const std::string& file, std::uint64_t data_begin,
               std::uint64_t data_size)
      : where_(where),
        file_(file),
        data_begin_(data_begin),
        data_size_(data_size),
        allowance_(data_begin + data_size) {}

  std::map<std::string, DistTensor> parse(std::string_view text) {
    allowance_.take_json(text, where_);
    dom::parser parser;
    dom::object root;
    if (const auto error = parse_json(parser, text).get(root))
      fail(Exit::bad_data, where_, ": header: ", simdjson::error_message(error),
           ", expected a JSON object");
    bool metadata = false;
    for (const auto& [key, value] : root) {
      if (key == kSafetensorsMetadata) {
        if (metadata)
          fail(Exit::bad_data, where_, ": header: ", kSafetensorsMetadata, " comes twice");
        metadata = true;
        check_metadata(value);
      } else {
        if (tensors_.size() == kMostSafetensors)
          fail(Exit::bad_data, where_, ": header: more than ", kMostSafetensors, " tensors");
        add(std::string(key), value);
      }
    }
    check_tiling();
    return std::move(tensors_);
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const char* expected) const {
    fail(Exit::bad_data, where_, ": tensor ", key, ": expected ", expected);
  }

  void check_metadata(const dom::element& value) {
    dom::object object;
    bool strings = value.get(object) == simdjson::SUCCESS;
    std::set<std::string_view> names;
    if (strings) allowance_.take(kNameBytes * object.size(), where_);
    if (strings)
      for (const auto& [name, text] : object)
        strings = strings && text.is_string() && names.insert(name).second;
    if (!strings)
      fail(Exit::bad_data, where_, ": header: ", kSafetensorsMetadata,
           ": expected an object of strings");
  }

  void add(const std::string& key, const dom::element& value) {
    constexpr const char* kMembers = "dtype, shape and data_offsets, each once";
    dom::object object;
    allowance_.take(kTensorBytes + 3 * key.size(), where_);
    if (value.get(object)) refuse(key, kMembers);
    std::set<std::string_view> members;
    for (const auto& [name, content] : object)
      if (!members.insert(name).second) refuse(key, kMembers);
    if (members != std::set<std::string_view>{"dtype", "shape", "data_offsets"})
      refuse(key, kMembers);
    const SafetensorsType type = type_in(key, value["dtype"]);
    DistTensor tensor{.key = key,
                      .dtype = type.dtype,
                      .dtype_name = std::string(type.dtype ? name_of(*type.dtype) : type.name),
                      .shape = shape_in(key, value["shape"]),
                      .chunks = {}};
    const auto [begin, end] = offsets_in(key, value["data_offsets"]);
    std::uint64_t bits = type.bits;
    for (const std::int64_t extent : tensor.shape.extents())
      if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits))
        refuse(key, "a size below 2^61 bytes");
    if (bits % 8 != 0 || bits / 8 != end - begin)
      fail(Exit::bad_data, where_, ": tensor ", key, ": ", end - begin, " bytes for ",
           tensor.dtype_name, tensor.shape);
    tensor.chunks = {
        {origin_of(tensor.shape.rank()), tensor.shape, {file_, data_begin_ + begin, end - begin}}};
    if (!tensors_.emplace(key, std::move(tensor)).second)
      fail(Exit::bad_data, where_, ": header: tensor ", key, " comes twice");
  }

  SafetensorsType type_in(const std::string& key, const dom::element& value) const {
    std::string_view name;
    if (value.get(name) == simdjson::SUCCESS)
      for (const SafetensorsType& type : kSafetensorsTypes)
        if (type.name == name) return type;
    refuse(key, "a dtype as \"BF16\"");
  }

  Shape shape_in(const std::string& key, const dom::element& value) const {
    dom::array array;
    if (value.get(array)) refuse(key, "a shape as [2, 3]");
    std::vector<std::int64_t> extents;
    std::int64_t numel = 1;
    for (const dom::element& item : array) {
      std::int64_t extent = 0;
      if (extents.size() == Shape::kMaxRank || item.get(extent) || extent < 0 ||
          __builtin_mul_overflow(numel, std::max<std::int64_t>(extent, 1), &numel))
        refuse(key, "a shape of at most 8 whole numbers and below 2^63 elements");
      extents.push_back(extent);
    }
    return Shape(std::span<const std::int64_t>(extents));
  }

  std::pair<std::uint64_t, std::uint64_t> offsets_in(const std::string& key,
                                                     const dom::element& value) const {
    dom::array array;
    std::vector<std::uint64_t> offsets;
    bool numbers = value.get(array) == simdjson::SUCCESS && array.size() == 2;
    if (numbers)
      for (const dom::element& item : array)
        numbers = numbers && item.get(offsets.emplace_back()) == simdjson::SUCCESS;
    if (!numbers || offsets[0] > offsets[1] || offsets[1] > data_size_)
      refuse(key, "data_offsets inside of the file");
    return {offsets[0], offsets[1]};
  }

  // No hole, no overlap, nothing behind the last one.
  void check_tiling() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const auto& [key, tensor] : tensors_) {
      const ItemPlace& place = tensor.chunks[0].place;
      places.emplace_back(place.offset, place.length);
    }
    std::sort(places.begin(), places.end());
    std::uint64_t reached = data_begin_;
    for (const auto& [offset, length] : places) {
      if (offset != reached)
        fail(Exit::bad_data, where_, ": byte ", std::min(offset, reached), ": ",
             offset < reached ? "tensors overlap" : "belongs to no tensor");
      reached += length;
    }
    if (reached != data_begin_ + data_size_)
      fail(Exit::bad_data, where_, ": byte ", reached, ": belongs to no tensor");
  }

  const std::string& where_;
  const std::string& file_;
  std::uint64_t data_begin_, data_size_;
  Allowance allowance_;
  std::map<std::string, DistTensor> tensors_;
};

}  // namespace

std::map<std::string, DistTensor> parse_safetensors(Bytes file, const std::string& where,
                                                    const std::string& name) {
  refuse_lfs_pointer(as_text(file), where);
  if (file.size() < 8)
    fail(Exit::bad_data, where, ": ", file.size(), " bytes, expected a safetensors file");
  std::uint64_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<std::uint64_t>(file[i]);
  const std::uint64_t rest = file.size() - 8;
  if (header > kMostHeader || header > rest || header == 0 || file[8] != std::byte{'{'})
    fail(Exit::bad_data, where, ": a header of ", header, " bytes in a file of ", file.size(),
         ": no safetensors file");
  return HeaderParser(where, name, 8 + header, rest - header)
      .parse(as_text(file.subspan(8, static_cast<std::size_t>(header))));
}

static std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

SafetensorsReader::SafetensorsReader(const std::string& path)
    : file_(path), tensors_(parse_safetensors(file_.bytes(), path, base_name(path))) {}

void SafetensorsReader::read_original(const std::string& key, const Shape& offset,
                                      Tensor out) const {
  const DistTensor& tensor = readable(key, offset, out);
  const ItemPlace& place = tensor.chunks[0].place;
  dense(*tensor.dtype, tensor.shape, file_.bytes().subspan(place.offset, place.length))
      .copy_once(file_, offset, out);
}

std::optional<MappedTensor> SafetensorsReader::view(const std::string& key, const Shape&,
                                                    const Shape& shape) const {
  const DistTensor& tensor = at(key);
  if (!(tensor.shape == shape)) return {};
  const ItemPlace& place = tensor.chunks[0].place;
  return MappedTensor{&file_, {file_.bytes().data() + place.offset, *tensor.dtype, shape}};
}

}  // namespace mt
