// npy_header: the bytes of a .npy (NumPy's format 1.0) of a matrix of float32, [rows, columns],
// little-endian, row after row, in front of its numbers.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace mt {

inline std::string npy_header(std::int64_t rows, std::int64_t columns) {
  const std::string says =
      concat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, "), }");
  constexpr std::size_t kBegin = 10;  // magic, version and the header's length, in two bytes
  const std::size_t all = (kBegin + says.size() + 1 + 63) / 64 * 64, length = all - kBegin;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length % 256);
  header += static_cast<char>(length / 256);
  header += says;
  header.resize(all - 1, ' ');
  return header + "\n";
}

}  // namespace mt
