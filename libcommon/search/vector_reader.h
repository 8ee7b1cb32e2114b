// VectorReader: rows of f32 from a file or stdin, some at a time: a matrix of NumPy's, .npy, of
// float32 in C's order, little-endian; or, where the columns are given, numbers without a header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace mt {

class VectorReader {
 public:
  // "-" is stdin.  Exit::bad_data where it is no such matrix, or has other columns than given.
  VectorReader(const std::string& path, std::optional<std::int64_t> columns);

  std::int64_t columns() const { return columns_; }
  // The next rows, at most so many; empty at the end.  Exit::bad_data where a row or the file ends
  // early, and for what is no finite number.
  std::vector<float> read(std::int64_t most);

 private:
  void read_header();
  std::size_t fill(std::span<std::byte> into);  // as much as there is

  File file_;
  std::int64_t columns_ = 0, at_ = 0;
  std::optional<std::int64_t> rows_ = {};  // that a header tells of
  std::string begin_ = {};                 // read while a header was looked for, and not yet used
};

}  // namespace mt
