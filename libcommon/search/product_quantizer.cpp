#include "search/product_quantizer.h"

#include <algorithm>
#include <utility>

#include "kernels/isa.h"
#include "search/kmeans.h"

namespace mt {

void ProductQuantizer::train(std::span<const float> vectors, int iterations, Products& products) {
  centres = k_means({.centres = kCentres,
                     .columns = columns,
                     .parts = parts,
                     .iterations = iterations,
                     .begin = std::move(centres)},
                    vectors, products);
}

std::vector<std::uint8_t> ProductQuantizer::encode(ConstTensor vectors, Products& products) const {
  const std::int64_t rows = vectors.shape()[0];
  const Products::Rows of = products.rows(centres, part_columns());
  const Buffer memory = products.buffer(static_cast<std::size_t>(parts * rows * 4));
  const Tensor found = memory.tensor(DType::i32, {parts, rows});
  products.nearest(found, vectors, of.tensor.reshape({parts, kCentres, part_columns()}));
  const std::vector<std::int32_t> nearest = products.values<std::int32_t>(found);
  std::vector<std::uint8_t> codes(nearest.size());
  constexpr std::int64_t kTogether = 256;  // rows
  products.each((rows + kTogether - 1) / kTogether, [&](std::int64_t block) {
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t i = block * kTogether; i < std::min(rows, (block + 1) * kTogether); ++i)
        codes[static_cast<std::size_t>(i * parts + part)] =
            static_cast<std::uint8_t>(nearest[static_cast<std::size_t>(part * rows + i)]);
  });
  return codes;
}

std::vector<float> ProductQuantizer::decode(std::span<const std::uint8_t> codes,
                                            Products& products) const {
  const std::int64_t width = part_columns();
  std::vector<float> vectors(codes.size() * static_cast<std::size_t>(width));
  products.each(std::ssize(codes) / parts, [&](std::int64_t row) {
    for (std::int64_t i = row * parts; i < (row + 1) * parts; ++i)
      std::copy_n(
          centres.begin() + (i % parts * kCentres + codes[static_cast<std::size_t>(i)]) * width,
          width, vectors.begin() + i * width);
  });
  return vectors;
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
