#include "search/product_quantizer.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/isa.h"
#include "ops/nearest.h"
#include "search/kmeans.h"

namespace mt {

void ProductQuantizer::train(ConstTensor vectors, int iterations, Products& products) {
  centres = k_means({.centres = part_centres(),
                     .columns = columns,
                     .parts = parts,
                     .iterations = iterations,
                     .begin = std::move(centres)},
                    vectors, products);
}

ProductQuantizer::Nearest ProductQuantizer::nearest(ConstTensor vectors, Products& products) const {
  const ConstTensor all = products.rows(Products::kCentres, centres, part_columns())
                              .reshape({parts, part_centres(), part_columns()});
  const Tensor found = products.scratch(Products::kFound, DType::i32, {parts, vectors.shape()[0]});
  products.nearest(found, vectors, all);
  return {all, found};
}

std::vector<std::uint8_t> ProductQuantizer::encode(ConstTensor vectors, Products& products) const {
  const Tensor codes = products.scratch(Products::kCodes, DType::u8, {vectors.shape()[0], parts});
  row_codes(codes, nearest(vectors, products).found, products.stream());
  const std::vector<std::uint8_t> all = products.values<std::uint8_t>(codes);
  if (bits == 8) return all;
  const std::int64_t size = code_size();
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(vectors.shape()[0] * size));
  for (std::size_t at = 0; at < all.size(); ++at) {
    const auto row = static_cast<std::int64_t>(at) / parts,
               part = static_cast<std::int64_t>(at) % parts;
    std::uint8_t& byte = packed[static_cast<std::size_t>(row * size + part / 2)];
    byte = static_cast<std::uint8_t>(byte | all[at] << (part % 2 * bits));
  }
  return packed;
}

void ProductQuantizer::decode(const std::uint8_t* code, float* vector) const {
  const std::int64_t width = part_columns(), of_byte = 8 / bits;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t centre =
        code[part / of_byte] >> (part % of_byte * bits) & (part_centres() - 1);
    std::copy_n(centres.begin() + (part * part_centres() + centre) * width, width,
                vector + part * width);
  }
}

void ProductQuantizer::decode_codes_of(Tensor out, ConstTensor vectors, Products& products) const {
  const Nearest of = nearest(vectors, products);
  rows_of_centres(out, of.centres, of.found, products.stream());
}

std::vector<float> ProductQuantizer::turned() const {
  const std::int64_t width = part_columns();
  std::vector<float> result(centres.size());
  const std::int64_t count = part_centres();
  for (std::int64_t i = 0; i < parts * count; ++i)
    for (std::int64_t c = 0; c < width; ++c)
      result[static_cast<std::size_t>((i / count * width + c) * count + i % count)] =
          centres[static_cast<std::size_t>(i * width + c)];
  return result;
}

void ProductQuantizer::fill_table(const float* vector, bool inner, std::span<const float> turned,
                                  std::span<float> table) const {
  const auto fill = [&]<std::int64_t kCount>(std::integral_constant<std::int64_t, kCount>) {
    const std::int64_t width = part_columns();
    for (std::int64_t part = 0; part < parts; ++part) {
      float* const row = &table[static_cast<std::size_t>(part * kCount)];
      float sums[kCount] = {};
      for (std::int64_t c = part * width; c < (part + 1) * width; ++c) {
        const float* const column = &turned[static_cast<std::size_t>(c * kCount)];
        const float x = vector[c];
        if (inner)
          for (std::int64_t j = 0; j < kCount; ++j) sums[j] += x * column[j];
        else
          for (std::int64_t j = 0; j < kCount; ++j) sums[j] += (x - column[j]) * (x - column[j]);
      }
      std::copy_n(sums, kCount, row);
    }
  };
  cpu::run([&] {
    if (bits == 8)
      fill(std::integral_constant<std::int64_t, 256>());
    else
      fill(std::integral_constant<std::int64_t, 16>());
  });
}

std::vector<float> ProductQuantizer::of_bytes(std::vector<float> table) const {
  if (bits == 8) return table;
  const std::int64_t count = part_centres();
  table.resize(static_cast<std::size_t>(2 * code_size() * count));  // zeros behind an odd number
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(code_size() * kByte));
  for (auto lower = table.begin(); lower != table.end(); lower += 2 * count)
    for (std::int64_t byte = 0; byte < kByte; ++byte)
      result.push_back(lower[byte % count] + lower[count + byte / count]);
  return result;
}

}  // namespace mt
