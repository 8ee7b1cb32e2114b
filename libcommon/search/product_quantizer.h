// ProductQuantizer: codes of vectors, a byte for each of their parts: the part's nearest of 256
// centres (Jégou, Douze, Schmid, "Product quantization for nearest neighbor search", 2011).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/products.h"

namespace mt {

struct ProductQuantizer {
  static constexpr std::int64_t kBits = 8, kCentres = 1 << kBits;  // of a part

  std::int64_t columns = 0, parts = 0;  // parts divide the columns
  std::vector<float> centres = {};      // [parts, kCentres, columns / parts]

  std::int64_t part_columns() const { return columns / parts; }
  // By k-means of each part, which goes on from the centres where it has some.
  // vectors: [n, columns], where products are made, here and below.
  void train(ConstTensor vectors, int iterations, Products& products);
  // codes: [n, parts].
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  void decode_codes_of(Tensor out, ConstTensor vectors, Products& products) const;  // out: as they
  // Squared distances of a vector's parts to all centres, [parts, kCentres]; inner products with
  // them for `inner`.
  void fill_table(const float* vector, bool inner, std::span<const float> turned,
                  std::span<float> table) const;
  // The centres column by column, [parts, columns / parts, kCentres], as fill_table() reads them.
  std::vector<float> turned() const;

 private:
  // Centres where products are made, [parts, kCentres, columns / parts], and which of them are
  // nearest to vectors, i32 [parts, n], in room of these uses.
  struct Nearest {
    ConstTensor centres, found;
  };
  Nearest nearest(ConstTensor vectors, Products& products) const;
};

}  // namespace mt
