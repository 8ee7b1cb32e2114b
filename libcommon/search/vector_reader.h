// VectorReader: rows of f32 from a file or stdin, some at a time: a matrix of NumPy's, .npy, of
// float32 in C's order, little-endian; lines of JSON (json_vectors.h); or, where the columns are
// given, numbers without a header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"

namespace mt {

class JsonVectors;

class VectorReader {
 public:
  // "-" is stdin.  Exit::bad_data where it is no such matrix, or has other columns than given.
  VectorReader(const std::string& path, std::optional<std::int64_t> columns);
  ~VectorReader();
  VectorReader(const VectorReader&) = delete;

  std::int64_t columns() const { return columns_; }
  // Whether rows can be read before they are asked for: nobody has to write them first.
  bool is_there() const { return is_regular_; }
  // How many are left, of a matrix that is there.
  std::optional<std::int64_t> rows_left() const;
  // Reads the next rows into `into`, which has room for one at least; returns how many, 0 at the
  // end.  Exit::bad_data where a row or the file ends early, and for what is no finite number.  By
  // several threads: those of the arena that calls.
  std::int64_t read(std::span<float> into);
  // Whether rows can be taken from a mapping of the file: of a matrix that is there.
  bool can_be_mapped() const;
  // As read(), but at most so many rows lie in `file`, a mapping of the same.
  std::span<const float> next_of(const MappedFile& file, std::int64_t most);

 private:
  // So many bytes of rows were read, and are finite numbers: checks it, and returns how many rows.
  std::int64_t taken(std::span<const float> numbers, std::size_t got, bool finite);
  void read_header();
  std::size_t fill(std::span<std::byte> into);  // as much as there is
  void check_end();

  File file_;
  bool is_regular_ = false;
  std::uint64_t offset_ = 0, size_ = 0;  // of a matrix that is there: of the next row, of the file
  std::int64_t columns_ = 0, at_ = 0;
  std::optional<std::int64_t> rows_ = {};  // that a header tells of
  std::string begin_ = {};                 // read while a header was looked for, and not yet used
  std::unique_ptr<JsonVectors> lines_;     // null: no lines of JSON
};

}  // namespace mt
