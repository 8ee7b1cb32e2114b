#include "search/product_quantizer.h"

#include <algorithm>
#include <utility>

#include "kernels/isa.h"
#include "ops/nearest.h"
#include "search/kmeans.h"

namespace mt {

void ProductQuantizer::train(ConstTensor vectors, int iterations, Products& products) {
  centres = k_means({.centres = kCentres,
                     .columns = columns,
                     .parts = parts,
                     .iterations = iterations,
                     .begin = std::move(centres)},
                    vectors, products);
}

ProductQuantizer::Nearest ProductQuantizer::nearest(ConstTensor vectors, Products& products) const {
  const ConstTensor all = products.rows(Products::kCentres, centres, part_columns())
                              .reshape({parts, kCentres, part_columns()});
  const Tensor found = products.scratch(Products::kFound, DType::i32, {parts, vectors.shape()[0]});
  products.nearest(found, vectors, all);
  return {all, found};
}

std::vector<std::uint8_t> ProductQuantizer::encode(ConstTensor vectors, Products& products) const {
  const Tensor codes = products.scratch(Products::kCodes, DType::u8, {vectors.shape()[0], parts});
  row_codes(codes, nearest(vectors, products).found, products.stream());
  return products.values<std::uint8_t>(codes);
}

void ProductQuantizer::decode_codes_of(Tensor out, ConstTensor vectors, Products& products) const {
  const Nearest of = nearest(vectors, products);
  rows_of_centres(out, of.centres, of.found, products.stream());
}

std::vector<float> ProductQuantizer::turned() const {
  const std::int64_t width = part_columns();
  std::vector<float> result(centres.size());
  for (std::int64_t i = 0; i < parts * kCentres; ++i)
    for (std::int64_t c = 0; c < width; ++c)
      result[static_cast<std::size_t>((i / kCentres * width + c) * kCentres + i % kCentres)] =
          centres[static_cast<std::size_t>(i * width + c)];
  return result;
}

void ProductQuantizer::fill_table(const float* vector, bool inner, std::span<const float> turned,
                                  std::span<float> table) const {
  const std::int64_t width = part_columns();
  cpu::run([&] {
    for (std::int64_t part = 0; part < parts; ++part) {
      float* const row = &table[static_cast<std::size_t>(part * kCentres)];
      std::fill_n(row, kCentres, 0.0F);
      for (std::int64_t c = part * width; c < (part + 1) * width; ++c) {
        const float* const column = &turned[static_cast<std::size_t>(c * kCentres)];
        const float x = vector[c];
        if (inner)
          for (std::int64_t j = 0; j < kCentres; ++j) row[j] += x * column[j];
        else
          for (std::int64_t j = 0; j < kCentres; ++j) row[j] += (x - column[j]) * (x - column[j]);
      }
    }
  });
}

}  // namespace mt
