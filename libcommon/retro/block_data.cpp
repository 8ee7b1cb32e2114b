#include "retro/block_data.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "ckpt/pickle.h"

namespace mt {

static_assert(std::endian::native == std::endian::little);  // numbers go as they lie in memory

// --- Writing ------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kPairs = 1000;  // that one mark is behind, as Python's pickler has it

std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string integer(std::int64_t n) {
  if (n >= 0 && n < 256) return "K" + little_endian(static_cast<std::uint64_t>(n), 1);
  if (n >= 0 && n < 65536) return "M" + little_endian(static_cast<std::uint64_t>(n), 2);
  if (n == static_cast<std::int32_t>(n))
    return "J" + little_endian(static_cast<std::uint64_t>(n), 4);
  return std::string("\x8a\x08") + little_endian(static_cast<std::uint64_t>(n), 8);
}

std::string text(std::string_view word) {
  return "X" + little_endian(word.size(), 4) + std::string(word);
}

std::string bytes(std::string_view content) {
  return "B" + little_endian(content.size(), 4) + std::string(content);
}

}  // namespace

BlockDataWriter::BlockDataWriter(const std::string& path, bool overwrite) : file_(path, overwrite) {
  file_.write("\x80\x03}" + text("embed_data") + "}");
}

// What the first array, whose id was written, is made of, and memos 0 to 5 of it: _reconstruct, its
// arguments, the shape, numpy.dtype's object, and False.
void BlockDataWriter::begin_arrays(std::int64_t columns) {
  file_.write("cnumpy.core.multiarray\n_reconstruct\nq" + std::string(1, '\0') +
              "cnumpy\nndarray\n" + integer(0) + "\x85" + bytes("b") + "\x87q\x01" + "R(" +
              integer(1) + integer(columns) + "\x85q\x02" + "cnumpy\ndtype\n" + text("f2") +
              "\x89\x88\x87R(" + integer(3) + text("<") + "NNN" + integer(-1) + integer(-1) +
              integer(0) + "tbq\x03" + "\x89");
}

void BlockDataWriter::add(std::int64_t id, std::span<const float> vector) {
  std::vector<Fp16> numbers(vector.size());
  for (std::size_t i = 0; i < vector.size(); ++i) {
    numbers[i] = Fp16(vector[i]);
    if (!std::isfinite(static_cast<float>(numbers[i])))
      fail(Exit::bad_data, file_.path(), ": passage ", id, ": ", vector[i],
           " is no number of float16");
  }
  if (open_ == 0) file_.write("(");
  file_.write(integer(id));
  if (!begun_)
    begin_arrays(std::ssize(vector));
  else
    file_.write(std::string_view("h\0h\1R(K\1h\2h\3\x89", 13));
  begun_ = true;
  file_.write("B" + little_endian(numbers.size() * sizeof(Fp16), 4));
  file_.write(Bytes(std::as_bytes(std::span(numbers))));
  file_.write("tb");
  if (++open_ < kPairs) return;
  file_.write("u");
  open_ = 0;
}

void BlockDataWriter::commit() {
  file_.write(open_ > 0 ? "us." : "s.");
  file_.commit();
}

// --- Reading ------------------------------------------------------------------------------------

namespace {

// The numbers of an array, appended; returns how many.
std::int64_t append_array(const PyValue& array, const std::string& where,
                          std::vector<float>& numbers) {
  const auto refuse = [&](const char* what) {
    fail(Exit::bad_data, where, ": ", what,
         ", expected a numpy array of one dimension, of float16 "
         "or float32");
  };
  const auto is = [&](const char* module, const char* name) {  // as numpy 1 and 2 call it
    return array.is_object(concat("numpy.core.", module), name) ||
           array.is_object(concat("numpy._core.", module), name);
  };
  // What the arrays of protocol 5 are made of, and those before.
  const bool of_buffer = is("numeric", "_frombuffer");
  if (!of_buffer && (!is("multiarray", "_reconstruct") || array.state() == nullptr ||
                     !array.state()->is(PyValue::Kind::tuple)))
    refuse("is no numpy array");
  const std::vector<PyValue>& parts = of_buffer ? array.args() : array.state()->as_items(where);
  if (parts.size() != (of_buffer ? 4U : 5U)) refuse("has another state");
  const std::vector<PyValue>& shape = parts[of_buffer ? 2 : 1].as_items(where);
  const PyValue& dtype = parts[of_buffer ? 1 : 2];
  if (shape.size() != 1) refuse("has another shape");
  const std::int64_t count = shape[0].as_integer(where);
  if (!dtype.is_object("numpy", "dtype") || dtype.args().empty()) refuse("is of another type");
  const std::string& type = dtype.args()[0].as_string(where);
  const PyValue& buffer = parts[of_buffer ? 0 : 4];
  const bool is_array =
      buffer.is(PyValue::Kind::object) && buffer.name() == "bytearray" && !buffer.args().empty();
  const std::string& raw = (is_array ? buffer.args()[0] : buffer).as_bytes(where);
  const std::size_t each = type == "f2" ? 2 : type == "f4" ? 4 : 0;
  if (each == 0) refuse("is of another type");
  if (count < 0 || raw.size() % each != 0 || raw.size() / each != static_cast<std::size_t>(count))
    refuse("has another size");
  const std::vector<PyValue>* const says =
      dtype.state() == nullptr ? nullptr : &dtype.state()->as_items(where);
  if (says != nullptr && says->size() > 1 && !((*says)[1] == PyValue("<")))
    refuse("is not little-endian");
  for (std::int64_t i = 0; i < count; ++i) {
    const char* const at = raw.data() + static_cast<std::size_t>(i) * each;
    Fp16 half;
    float whole = 0;
    std::memcpy(each == 2 ? static_cast<void*>(&half) : &whole, at, each);
    numbers.push_back(each == 2 ? static_cast<float>(half) : whole);
  }
  return count;
}

}  // namespace

BlockData read_block_data(const std::string& path) {
  const MappedFile file(path);
  const PyValue all = read_pickle(file.bytes(), path);
  const std::vector<PyValue>& entries = all.at("embed_data", path).entries(path + ": embed_data");
  BlockData data;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const std::int64_t id = entries[i].as_integer(path + ": embed_data: an id");
    const std::string where = concat(path, ": embed_data: ", id);
    const std::int64_t columns = append_array(entries[i + 1], where, data.vectors);
    if (data.ids.empty()) data.columns = columns;
    if (columns != data.columns)
      fail(Exit::bad_data, where, ": ", columns, " numbers, expected ", data.columns);
    data.ids.push_back(id);
  }
  if (data.ids.empty() || data.columns == 0) fail(Exit::bad_data, path, ": has no vectors");
  return data;
}

}  // namespace mt
