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

 private:
  void read_header();
  std::size_t fill(std::span<std::byte> into);  // as much as there is
  std::size_t fill_at_once(std::span<std::byte> into);
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
