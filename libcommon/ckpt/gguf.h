// GGUF files, llama.cpp's format of a model in one file: version 3, and version 2, which looks the
// same, to be read.  All little-endian.
//   "GGUF"  u32 3  u64 tensors  u64 key-values
//   key-values    string key, u32 type, value; by type:
//                   0 u8   1 i8   2 u16   3 i16   4 u32   5 i32   6 f32   7 bool, a byte   8 string
//                   9 array: u32 type of its elements, u64 count, elements   10 u64   11 i64   12
//                   f64
//   tensors       string name, u32 axes, u64 extents, the last axis first, u32 element type,
//                 u64 offset of its first element behind the padding
//   padding       zeros, to a multiple of 32 bytes from the file's first; behind each tensor too
//   elements      row-major, at their offsets, which are multiples of 32
// The key-value general.alignment, a u32, may say another multiple than 32.
// A model may be several files, NAME-00001-of-0000N.gguf and so on.  The first says in split.count,
// a u16, how many; each has its number from 0 in split.no, tensors of its own and that count; other
// key-values are the first's.
// A string is a u64 length and its bytes, of UTF-8.
// Elements may lie in blocks of a row (gguf_blocks.h, gguf_quantize.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "ckpt/gguf_blocks.h"
#include "ckpt/tensor_source.h"
#include "tensor/tensor.h"

namespace mt {

std::uint64_t gguf_bytes(GgufType type, const Shape& shape);

class GgufKeyValues {
 public:
  void integer(std::string_view key, std::uint32_t value);
  void real(std::string_view key, float value);
  void flag(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void integers(std::string_view key, const std::vector<std::int32_t>& values);
  void reals(std::string_view key, const std::vector<float>& values);

  std::uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t type);

  std::string bytes_;
  std::uint64_t count_ = 0;
};

class GgufWriter {
 public:
  struct Entry {
    std::string name;
    GgufType type;
    Shape shape;  // whose last axis blocks divide
  };
  GgufWriter(const std::string& path, const GgufKeyValues& key_values,
             const std::vector<Entry>& entries);

  // Each of the entries once, in any order, from several threads at a time: its elements in its
  // type; of blocks as f32, made by the importance of each column where that is given
  // (ckpt/gguf_quantize.h).
  void write(const std::string& name, ConstTensor tensor, std::span<const float> importance = {});
  // Writes one of the tensors that an entry is made of, which its first axis counts.
  void write_part(const std::string& name, std::int64_t part, ConstTensor tensor,
                  std::span<const float> importance = {});
  void close();  // synced to the disk

 private:
  struct Place {
    std::uint64_t offset;  // of its first element in the file
    GgufType type;
    Shape shape;
  };
  void write_at(const std::string& name, const Place& place, ConstTensor tensor,
                std::span<const float> importance);
  void pad(const Place& place);  // behind its last element
  File file_;
  std::map<std::string, Place> places_;
};

// --- Reading ------------------------------------------------------------------------------------

// A value of a key, as it lies in the file; it views the file.
class GgufValue {
 public:
  GgufValue() = default;
  GgufValue(std::uint32_t type, Bytes bytes) : type_(type), bytes_(bytes) {}
  GgufValue(std::uint32_t element, std::uint64_t count, Bytes bytes);  // an array

  // What it is, or Exit::bad_data "WHERE: is of type 8, expected …".
  std::int64_t as_integer(const std::string& where) const;  // of any whole number below 2^63
  double as_real(const std::string& where) const;
  bool as_flag(const std::string& where) const;
  std::string as_text(const std::string& where) const;
  std::vector<std::string_view> as_texts(const std::string& where) const;
  std::vector<std::int64_t> as_integers(const std::string& where) const;
  // One whole number, or an array of them, or of flags, which are 0 and 1.
  std::vector<std::int64_t> as_numbers(const std::string& where) const;
  std::vector<float> as_reals(const std::string& where) const;
  std::string json() const;  // of an array a text, its length

 private:
  template <class T>
  T number() const;
  GgufValue element(std::uint64_t i) const;  // of numbers

  std::uint32_t type_ = 0, element_ = 0;  // of an array its elements'
  std::uint64_t count_ = 0;               // elements of an array
  Bytes bytes_;                           // of a string without its length
};

struct GgufContent {
  std::map<std::string, GgufValue> values;
  // Their chunks are places in the file.  Those in blocks count as f32, and dtype_name is the
  // blocks' name.
  std::map<std::string, DistTensor> tensors;
};

// `where` stands in errors, which are all Exit::bad_data; `name` is the file's in the places. Names
// are unique, and tensors lie one behind another without a hole but for the padding.
GgufContent parse_gguf(Bytes file, const std::string& where, const std::string& name);

bool is_gguf(std::string_view beginning);    // of 4 bytes or more
bool is_gguf_file(const std::string& path);  // Exit::no_input for a pipe or a device

// A file, or the files of which it is the first.  Elements in blocks are read as float32.
class GgufReader : public TensorSource {
 public:
  explicit GgufReader(const std::string& path);
  const std::string& path() const override { return file_.path(); }
  const std::map<std::string, GgufValue>& values() const { return content_.values; }
  // Where there is no such key: null, or Exit::bad_data.
  const GgufValue* find_value(const std::string& key) const;
  const GgufValue& value(const std::string& key) const;
  const std::map<std::string, DistTensor>& tensors() const override { return content_.tensors; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  // The blocks of a row of a tensor in blocks, as they lie in the file; rows are counted through
  // all axes but the last.  Exit::bad_data for a scale that is not finite.
  Bytes blocks_of_row(const DistTensor& tensor, std::int64_t row) const;
  // The pages of such rows, [begin, end), leave memory until they are read again.
  void forget_rows(const DistTensor& tensor, std::int64_t begin, std::int64_t end) const;

 private:
  Bytes blocks_of_rows(const DistTensor& tensor, std::int64_t begin, std::int64_t end) const;
  std::vector<float> numbers_of(const DistTensor& tensor, Bytes blocks) const;
  void check_scales(const DistTensor& tensor, bool finite) const;
  std::int64_t integer_or(const std::string& key, std::int64_t other) const;
  void add_files();
  const MappedFile& file_of(const DistTensor& tensor) const;

  MappedFile file_;
  std::map<std::string, MappedFile> others_;  // by their names
  GgufContent content_;
};

}  // namespace mt
