#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/json.h"
#include "base/utf8.h"
#include "ckpt/gguf.h"
#include "ckpt/strided_copy.h"
#include "ckpt/torch_file.h"

namespace mt {

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitNumber = "split.no";
constexpr const char* kSplitTensors = "split.tensors.count";
constexpr std::int64_t kMostFiles = 4096;
// Most things in a file, and bytes of their names: what is known of them is more than what the file
// says, and yet below 64 MiB.
constexpr std::uint64_t kMostTensors = 1 << 15, kMostTensorName = 256;
constexpr std::uint64_t kMostValues = 1 << 14, kMostKey = 1024;

// Types of values.
enum Value : std::uint32_t { boolean = 7, string = 8, array = 9, types = 13 };
constexpr std::uint64_t kSizes[types] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

bool is_gguf(std::string_view beginning) { return beginning.starts_with("GGUF"); }

// --- Values -------------------------------------------------------------------------------------

GgufValue::GgufValue(std::uint32_t element, std::uint64_t count, Bytes bytes)
    : type_(Value::array), element_(element), count_(count), bytes_(bytes) {}

template <class T>
T GgufValue::number() const {
  T value;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::int64_t GgufValue::as_integer(const std::string& where) const {
  switch (type_) {
    case 0:
      return number<std::uint8_t>();
    case 1:
      return number<std::int8_t>();
    case 2:
      return number<std::uint16_t>();
    case 3:
      return number<std::int16_t>();
    case 4:
      return number<std::uint32_t>();
    case 5:
      return number<std::int32_t>();
    case 10:
      if (number<std::int64_t>() < 0) break;
      [[fallthrough]];
    case 11:
      return number<std::int64_t>();
    default:
      break;
  }
  fail(Exit::bad_data, where, ": is of type ", type_, ", expected a whole number below 2^63");
}

double GgufValue::as_real(const std::string& where) const {
  if (type_ == 6) return number<float>();
  if (type_ == 12) return number<double>();
  fail(Exit::bad_data, where, ": is of type ", type_, ", expected 6 or 12, a real number");
}

std::string GgufValue::as_text(const std::string& where) const {
  if (type_ != Value::string)
    fail(Exit::bad_data, where, ": is of type ", type_, ", expected 8, a text");
  return std::string(mt::as_text(bytes_));
}

bool GgufValue::as_flag(const std::string& where) const {
  if (type_ != Value::boolean)
    fail(Exit::bad_data, where, ": is of type ", type_, ", expected 7, a flag");
  return number<std::uint8_t>() != 0;
}

std::vector<std::string_view> GgufValue::as_texts(const std::string& where) const {
  if (type_ != Value::array || element_ != Value::string)
    fail(Exit::bad_data, where, ": expected an array of texts");
  std::vector<std::string_view> texts;
  for (Bytes rest = bytes_; !rest.empty();) {
    std::uint64_t size;
    std::memcpy(&size, rest.data(), sizeof size);
    texts.push_back(mt::as_text(rest.subspan(sizeof size, size)));
    rest = rest.subspan(sizeof size + size);
  }
  return texts;
}

GgufValue GgufValue::element(std::uint64_t i) const {
  return {element_, bytes_.subspan(i * kSizes[element_], kSizes[element_])};
}

std::vector<std::int64_t> GgufValue::as_integers(const std::string& where) const {
  if (type_ != Value::array) fail(Exit::bad_data, where, ": expected an array of whole numbers");
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < count_; ++i) numbers.push_back(element(i).as_integer(where));
  return numbers;
}

std::vector<std::int64_t> GgufValue::as_numbers(const std::string& where) const {
  if (type_ != Value::array) return {as_integer(where)};
  if (element_ != Value::boolean) return as_integers(where);
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < count_; ++i) numbers.push_back(element(i).as_flag(where) ? 1 : 0);
  return numbers;
}

std::vector<float> GgufValue::as_reals(const std::string& where) const {
  if (type_ != Value::array) fail(Exit::bad_data, where, ": expected an array of real numbers");
  std::vector<float> numbers;
  for (std::uint64_t i = 0; i < count_; ++i)
    numbers.push_back(static_cast<float>(element(i).as_real(where)));
  return numbers;
}

// The shortest decimal that reads back equal.
static std::string shortest(float number) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), number).ptr};
}

std::string GgufValue::json() const {
  JsonWriter json;
  if (type_ == Value::string)
    json.value(as_text(""));
  else if (type_ == Value::array)
    json.value(concat(count_, " elements"));
  else if (type_ == Value::boolean)
    json.value(number<std::uint8_t>() != 0);
  else if (type_ == 6 && std::isfinite(number<float>()))
    json.raw(shortest(number<float>()));
  else if (type_ == 6 || type_ == 12)
    json.value(as_real(""));
  else if (type_ == 10)
    json.value(number<std::uint64_t>());
  else
    json.value(as_integer(""));
  return json.text();
}

// --- The file -----------------------------------------------------------------------------------

namespace {

class Parser {
 public:
  Parser(Bytes file, const std::string& where, const std::string& name)
      : file_(file), where_(where), name_(name) {}

  GgufContent run() {
    if (!is_gguf(as_text(take(4)))) bad("no GGUF file");
    const auto version = number<std::uint32_t>();
    if (version != 2 && version != 3) bad("version ", version, ", expected 2 or 3");
    const auto tensors = number<std::uint64_t>(), values = number<std::uint64_t>();
    if (tensors > kMostTensors || values > kMostValues)
      bad(tensors, " tensors and ", values, " key-values, expected at most ", kMostTensors, " and ",
          kMostValues);
    for (std::uint64_t i = 0; i < values; ++i) read_value();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
    return std::move(content_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Exit::bad_data, where_, ": byte ", at_, ": ", parts...);
  }

  Bytes take(std::uint64_t size) {
    if (size > file_.size() - at_)
      bad("needs ", size, " bytes, only ", file_.size() - at_, " are left");
    at_ += size;
    return file_.subspan(at_ - size, size);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  Bytes text() { return take(number<std::uint64_t>()); }
  std::string name_up_to(std::uint64_t most) {
    const std::string_view name = as_text(text());
    if (name.empty() || name.size() > most || !is_valid_utf8(name))
      bad("a name of ", name.size(), " bytes, expected 1 to ", most, ", of UTF-8");
    return std::string(name);
  }

  std::uint32_t type() {
    const auto found = number<std::uint32_t>();
    if (found >= Value::types) bad("values of type ", found, " are not known");
    return found;
  }

  // Bytes of elements that lie one behind another.
  Bytes elements(std::uint32_t of, std::uint64_t count) {
    if (of == Value::array) bad("arrays of arrays are not supported");
    const std::uint64_t begin = at_;
    if (of == Value::string) {
      for (std::uint64_t i = 0; i < count; ++i) text();
      return file_.subspan(begin, at_ - begin);
    }
    if (count > file_.size() / kSizes[of]) bad(count, " elements in a file of ", file_.size());
    return take(count * kSizes[of]);
  }

  void read_value() {
    const std::string name = name_up_to(kMostKey);
    const std::uint32_t of = type();
    GgufValue value;
    if (of == Value::array) {
      const std::uint32_t element = type();
      const auto count = number<std::uint64_t>();
      value = {element, count, elements(element, count)};
    } else {
      value = {of, of == Value::string ? text() : take(kSizes[of])};
    }
    if (!content_.values.emplace(name, value).second) bad("a second value of ", name);
  }

  void read_tensor() {
    const std::string name = name_up_to(kMostTensorName);
    std::int64_t extents[Shape::kMaxRank];
    const auto rank = number<std::uint32_t>();
    if (rank > Shape::kMaxRank)
      bad(name, " of ", rank, " axes, expected at most ", Shape::kMaxRank);
    std::int64_t numel = 1;
    for (std::uint32_t axis = rank; axis-- > 0;) {
      extents[axis] = static_cast<std::int64_t>(number<std::uint64_t>());
      if (extents[axis] < 0 ||
          __builtin_mul_overflow(numel, std::max<std::int64_t>(extents[axis], 1), &numel))
        bad(name, " of more elements than 2^63");
    }
    if (numel > std::int64_t{1} << 60) bad(name, " of ", numel, " elements");
    const Shape shape(std::span<const std::int64_t>(extents, rank));
    DistTensor tensor{.key = name,
                      .dtype = {},
                      .dtype_name = {},
                      .shape = shape,
                      .chunks = {{origin_of(shape.rank()), shape, {name_, 0, 0}}}};
    const auto of = static_cast<GgufType>(number<std::uint32_t>());
    set_type(tensor, of);
    tensor.chunks[0].place.offset = number<std::uint64_t>();
    tensor.chunks[0].place.length = gguf_bytes(of, shape);
    if (!content_.tensors.emplace(name, std::move(tensor)).second) bad("a second tensor ", name);
  }

  void set_type(DistTensor& tensor, GgufType type) const {
    switch (type) {
      case GgufType::f32:
        tensor.dtype = DType::f32;
        break;
      case GgufType::f16:
        tensor.dtype = DType::f16;
        break;
      case GgufType::bf16:
        tensor.dtype = DType::bf16;
        break;
      default:
        const GgufBlocks* const blocks = gguf_blocks(type);
        if (blocks == nullptr)
          bad(tensor.key, ": elements of type ", name_of(type), " are not supported");
        if (tensor.shape.rank() == 0 || tensor.shape[-1] % blocks->elements != 0)
          bad(tensor.key, " of ", blocks->name, " and of shape ", tensor.shape);
        tensor.dtype = DType::f32;
        tensor.dtype_name = blocks->name;
        return;
    }
    tensor.dtype_name = name_of(*tensor.dtype);
  }

  std::uint64_t alignment() const {
    const auto found = content_.values.find(std::string(kAlignmentKey));
    if (found == content_.values.end()) return 32;
    const std::int64_t bytes = found->second.as_integer(concat(where_, ": ", kAlignmentKey));
    if (bytes < 1 || bytes > 1 << 20 || (bytes & (bytes - 1)) != 0)
      bad(kAlignmentKey, " ", bytes, ", expected a power of two");
    return static_cast<std::uint64_t>(bytes);
  }

  // Offsets become those in the file.
  void place_tensors() {
    const std::uint64_t align = alignment();
    const auto padded = [&](std::uint64_t bytes) { return (bytes + align - 1) / align * align; };
    std::vector<ItemPlace*> places;
    for (auto& [name, tensor] : content_.tensors) places.push_back(&tensor.chunks[0].place);
    std::sort(places.begin(), places.end(), [](const ItemPlace* a, const ItemPlace* b) {
      return std::pair(a->offset, a->length) < std::pair(b->offset, b->length);
    });
    std::uint64_t reached = padded(at_);
    const std::uint64_t begin = reached;
    for (ItemPlace* place : places) {
      if (place->offset != reached - begin)
        bad("a tensor at ", place->offset, " behind the header, expected one at ", reached - begin);
      if (reached > file_.size() || place->length > file_.size() - reached)
        bad("a tensor of ", place->length, " bytes at ", reached, " in a file of ", file_.size());
      place->offset = reached;
      reached = padded(reached + place->length);
    }
    if (file_.size() > reached) bad(file_.size() - reached, " bytes behind the last tensor");
  }

  Bytes file_;
  const std::string &where_, &name_;
  std::uint64_t at_ = 0;
  GgufContent content_;
};

}  // namespace

GgufContent parse_gguf(Bytes file, const std::string& where, const std::string& name) {
  return Parser(file, where, name).run();
}

GgufReader::GgufReader(const std::string& path)
    : file_(path), content_(parse_gguf(file_.bytes(), path, path.substr(path.rfind('/') + 1))) {
  if (find_value(kSplitCount) != nullptr) add_files();
}

std::int64_t GgufReader::integer_or(const std::string& key, std::int64_t other) const {
  const GgufValue* const found = find_value(key);
  return found == nullptr ? other : found->as_integer(concat(path(), ": ", key));
}

// The end of the name of a model's file, counted from 1.
static std::string split_end(std::int64_t number, std::int64_t count) {
  const auto digits = [](std::int64_t n) {
    const std::string text = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(text.size(), 5), '0') + text;
  };
  return concat("-", digits(number), "-of-", digits(count), ".gguf");
}

void GgufReader::add_files() {
  const std::int64_t count = integer_or(kSplitCount, 1), number = integer_or(kSplitNumber, 0);
  if (count < 1 || count > kMostFiles)
    fail(Exit::bad_data, path(), ": ", kSplitCount, ": is ", count, ", expected 1 to ", kMostFiles);
  if (number != 0)
    fail(Exit::bad_data, path(), ": is number ", number + 1, " of ", count,
         " files; expected the first, ", split_end(1, count));
  if (count == 1) return;
  const std::string end = split_end(1, count);
  if (!path().ends_with(end))
    fail(Exit::bad_data, path(), ": is the first of ", count,
         " files, but its name does not end in ", end);
  const std::string stem = path().substr(0, path().size() - end.size());
  for (std::int64_t i = 1; i < count; ++i) {
    const std::string other = concat(stem, split_end(i + 1, count)),
                      name = other.substr(other.rfind('/') + 1);
    const MappedFile& file = others_.emplace(name, other).first->second;
    GgufContent content = parse_gguf(file.bytes(), other, name);
    for (const auto& [key, expected] : {std::pair(kSplitCount, count), {kSplitNumber, i}})
      if (const auto found = content.values.find(key);
          found == content.values.end() ||
          found->second.as_integer(concat(other, ": ", key)) != expected)
        fail(Exit::bad_data, other, ": ", key, ": is not ", expected);
    content_.tensors.merge(content.tensors);
    if (!content.tensors.empty())
      fail(Exit::bad_data, other, ": tensor ", content.tensors.begin()->first,
           ": is in another of the files too");
  }
  const auto all = std::ssize(content_.tensors);
  if (integer_or(kSplitTensors, all) != all)
    fail(Exit::bad_data, path(), ": ", kSplitTensors, ": is ", integer_or(kSplitTensors, all),
         ", but the files have ", all, " tensors");
}

const MappedFile& GgufReader::file_of(const DistTensor& tensor) const {
  const auto other = others_.find(tensor.chunks[0].place.file);
  return other == others_.end() ? file_ : other->second;
}

const GgufValue* GgufReader::find_value(const std::string& key) const {
  const auto found = content_.values.find(key);
  return found == content_.values.end() ? nullptr : &found->second;
}

const GgufValue& GgufReader::value(const std::string& key) const {
  const GgufValue* const found = find_value(key);
  if (found == nullptr) fail(Exit::bad_data, path(), ": ", key, ": is not there");
  return *found;
}

void GgufReader::check_scales(const DistTensor& tensor, bool finite) const {
  if (!finite)
    fail(Exit::bad_data, path(), ": ", tensor.key, ": the scale of a block of ", tensor.dtype_name,
         " is not finite");
}

std::vector<float> GgufReader::numbers_of(const DistTensor& tensor, Bytes blocks) const {
  const GgufBlocks& of = *gguf_blocks(tensor.dtype_name);
  std::vector<float> values(blocks.size() / of.bytes * static_cast<std::size_t>(of.elements));
  check_scales(tensor, dequantize(of, values.data(), blocks));
  return values;
}

Bytes GgufReader::blocks_of_rows(const DistTensor& tensor, std::int64_t begin,
                                 std::int64_t end) const {
  const GgufBlocks& of = *gguf_blocks(tensor.dtype_name);
  const ItemPlace& place = tensor.chunks[0].place;
  const std::size_t bytes = static_cast<std::size_t>(tensor.shape[-1] / of.elements) * of.bytes;
  return file_of(tensor)
      .bytes()
      .subspan(place.offset, place.length)
      .subspan(static_cast<std::size_t>(begin) * bytes,
               static_cast<std::size_t>(end - begin) * bytes);
}

Bytes GgufReader::blocks_of_row(const DistTensor& tensor, std::int64_t row) const {
  const Bytes blocks = blocks_of_rows(tensor, row, row + 1);
  check_scales(tensor, has_finite_scales(*gguf_blocks(tensor.dtype_name), blocks));
  return blocks;
}

void GgufReader::forget_rows(const DistTensor& tensor, std::int64_t begin, std::int64_t end) const {
  file_of(tensor).forget(blocks_of_rows(tensor, begin, end));
}

void GgufReader::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  const DistTensor& tensor = readable(key, offset, out);
  const ItemPlace& place = tensor.chunks[0].place;
  const MappedFile& file = file_of(tensor);
  const Bytes bytes = file.bytes().subspan(place.offset, place.length);
  const GgufBlocks* const of = gguf_blocks(tensor.dtype_name);
  if (of == nullptr) return dense(*tensor.dtype, tensor.shape, bytes).copy_once(file, offset, out);
  if (out.numel() == 0) return;
  const std::vector<std::int64_t> strides = row_major_strides(tensor.shape);
  std::int64_t first = 0, last = 0;
  for (int axis = 0; axis < offset.rank(); ++axis) {
    const std::int64_t stride = strides[static_cast<std::size_t>(axis)];
    first += offset[axis] * stride;
    last += (offset[axis] + out.shape()[axis] - 1) * stride;
  }
  const std::int64_t block = first / of->elements, end = last / of->elements + 1;
  const Bytes blocks = bytes.subspan(static_cast<std::size_t>(block) * of->bytes,
                                     static_cast<std::size_t>(end - block) * of->bytes);
  const std::vector<float> values = numbers_of(tensor, blocks);
  file.forget(blocks);
  const auto skipped = static_cast<std::size_t>(first - block * of->elements);
  StoredTensor{DType::f32, out.shape(), strides, std::as_bytes(std::span(values).subspan(skipped))}
      .copy_to(origin_of(offset.rank()), out);
}

}  // namespace mt
