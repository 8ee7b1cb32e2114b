// ProductQuantizer: codes of vectors, eight or four bits for each of their parts: the part's
// nearest of 256 or 16 centres (Jégou, Douze, Schmid, "Product quantization for nearest neighbor
// search", 2011).  Of four bits a byte has two parts, the first in its lower ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/products.h"

namespace mt {

struct ProductQuantizer {
  static constexpr std::int64_t kByte = 256;  // values of a byte of a code

  std::int64_t columns = 0, parts = 0;  // parts divide the columns
  std::int64_t bits = 8;                // of a part, or 4
  std::vector<float> centres = {};      // [parts, part_centres(), columns / parts]

  std::int64_t part_columns() const { return columns / parts; }
  std::int64_t part_centres() const { return std::int64_t{1} << bits; }
  std::int64_t code_size() const { return (parts * bits + 7) / 8; }  // bytes of a vector
  // By k-means of each part, which goes on from the centres where it has some.
  // vectors: [n, columns], where products are made, here and below.
  void train(ConstTensor vectors, int iterations, Products& products);
  // codes: [n, code_size()].
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  void decode(const std::uint8_t* code, float* vector) const;
  void decode_codes_of(Tensor out, ConstTensor vectors, Products& products) const;  // out: as they
  // Squared distances of a vector's parts to all centres, [parts, part_centres()]; inner products
  // with them for `inner`.
  void fill_table(const float* vector, bool inner, std::span<const float> turned,
                  std::span<float> table) const;
  // What each value of a code's bytes has of such a table, [code_size(), kByte].
  std::vector<float> of_bytes(std::vector<float> table) const;
  // The centres column by column, [parts, columns / parts, part_centres()], as fill_table() reads
  // them.
  std::vector<float> turned() const;
  bool operator==(const ProductQuantizer&) const = default;

 private:
  // Centres where products are made, [parts, part_centres(), columns / parts], and which of them
  // are nearest to vectors, i32 [parts, n], in room of these uses.
  struct Nearest {
    ConstTensor centres, found;
  };
  Nearest nearest(ConstTensor vectors, Products& products) const;
};

}  // namespace mt
