// kernels/list_scan.h: squared distances of vectors from those that the lists of an inverted file
// keep codes of (Jégou, Douze, Schmid, "Product quantization for nearest neighbor search", 2011).
// A code in list l stands for v = c[l] + r, where r is what a product quantizer's centres or a
// scalar quantizer's numbers say, or for its numbers themselves, without c.
//   |x - v|^2 = |x - c|^2 + t + sum_p table[p, code_p]        of a product quantizer, with
//   t         = sum_p |r_p|^2 + 2 c_p r_p                     of each code once, and
//   table     = -2 x_p r_pj                                   of each x once
// All numbers and sums are f32.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"
#include "kernels/number_codes.h"

namespace mt {

inline constexpr std::int64_t kPartCentres = 256;

enum class ListCodes : std::uint8_t { products, numbers, floats };

// Codes of list after list.
struct CodeLists {
  ListCodes kind = ListCodes::floats;
  const std::uint8_t* codes = nullptr;   // [vectors, bytes]
  const std::int64_t* begins = nullptr;  // [lists + 1]
  const float* centres = nullptr;        // [lists, columns]; null: codes are of vectors themselves
  std::int64_t lists = 0, columns = 0, bytes = 0;
  NumberCodes numbers = {};             // of that kind
  const float* part_centres = nullptr;  // [parts, kPartCentres, columns / parts], of products
  const float* terms = nullptr;         // [vectors]: t, of products

  constexpr std::int64_t parts() const { return bytes; }
  constexpr std::int64_t part_columns() const { return columns / bytes; }
};

struct ListScan {
  CodeLists lists = {};
  const std::int32_t* ids = nullptr;  // [vectors]
  const float* x = nullptr;           // [rows, columns]
  std::int64_t rows = 0, visited = 0;
  const std::int32_t* which = nullptr;   // lists, [rows, visited]
  const std::int64_t* places = nullptr;  // [rows, visited]: where what is of a list's vectors goes
  float* tables = nullptr;               // scratch of products: [rows, parts, kPartCentres]
};

}  // namespace mt

// distances and numbers: of all vectors of the lists that are visited, at their places; numbers are
// ids.  code_terms(): [vectors].
namespace mt::cpu {
void code_terms(float* terms, const CodeLists& lists);
void scan_lists(float* distances, std::int32_t* numbers, const ListScan& scan);
}  // namespace mt::cpu

namespace mt::cuda {
void code_terms(float* terms, const CodeLists& lists, cudaStream_t stream);
void scan_lists(float* distances, std::int32_t* numbers, const ListScan& scan, cudaStream_t stream);
}  // namespace mt::cuda
