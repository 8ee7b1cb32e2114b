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
  void train(std::span<const float> vectors, int iterations, Products& products);
  // vectors: [n, columns], where products are made; codes: [n, parts].
  std::vector<std::uint8_t> encode(ConstTensor vectors, Products& products) const;
  std::vector<float> decode(std::span<const std::uint8_t> codes, Products& products) const;
  // Squared distances of a vector's parts to all centres, [parts, kCentres]; inner products with
  // them for `inner`.
  void fill_table(const float* vector, bool inner, std::span<const float> turned,
                  std::span<float> table) const;
  // The centres column by column, [parts, columns / parts, kCentres], as fill_table() reads them.
  std::vector<float> turned() const;
};

}  // namespace mt
