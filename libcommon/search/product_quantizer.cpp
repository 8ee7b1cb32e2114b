#include "search/product_quantizer.h"

#include <algorithm>

#include "search/kmeans.h"

namespace mt {

// A part of each vector.
static std::vector<float> part_of(std::span<const float> vectors, std::int64_t columns,
                                  std::int64_t begin, std::int64_t count) {
  std::vector<float> part;
  part.reserve(vectors.size() / static_cast<std::size_t>(columns) *
               static_cast<std::size_t>(count));
  for (auto row = vectors.begin(); row != vectors.end(); row += columns)
    part.insert(part.end(), row + begin, row + begin + count);
  return part;
}

void ProductQuantizer::train(std::span<const float> vectors, int iterations, Products& products) {
  const std::int64_t width = part_columns(), all = kCentres * width;
  std::vector<float> found;
  for (std::int64_t part = 0; part < parts; ++part) {
    KMeans options = {.centres = kCentres, .columns = width, .iterations = iterations};
    if (!centres.empty())
      options.begin.assign(centres.begin() + part * all, centres.begin() + (part + 1) * all);
    const std::vector<float> some =
        k_means(options, part_of(vectors, columns, part * width, width), products);
    found.insert(found.end(), some.begin(), some.end());
  }
  centres = std::move(found);
}

std::vector<std::uint8_t> ProductQuantizer::encode(std::span<const float> vectors,
                                                   Products& products) const {
  const std::int64_t width = part_columns(), all = kCentres * width;
  std::vector<std::uint8_t> codes(vectors.size() / static_cast<std::size_t>(width));
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto nearest =
        products.nearest(part_of(vectors, columns, part * width, width),
                         std::span(centres).subspan(static_cast<std::size_t>(part * all),
                                                    static_cast<std::size_t>(all)),
                         width);
    for (std::int64_t i = 0; i < std::ssize(nearest); ++i)
      codes[static_cast<std::size_t>(i * parts + part)] =
          static_cast<std::uint8_t>(nearest[static_cast<std::size_t>(i)]);
  }
  return codes;
}

std::vector<float> ProductQuantizer::decode(std::span<const std::uint8_t> codes) const {
  const std::int64_t width = part_columns();
  std::vector<float> vectors;
  vectors.reserve(codes.size() * static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < std::ssize(codes); ++i) {
    const auto centre =
        centres.begin() + (i % parts * kCentres + codes[static_cast<std::size_t>(i)]) * width;
    vectors.insert(vectors.end(), centre, centre + width);
  }
  return vectors;
}

void ProductQuantizer::fill_table(const float* vector, bool inner, std::span<float> table) const {
  const std::int64_t width = part_columns();
  for (std::int64_t i = 0; i < std::ssize(table); ++i) {
    const float* const part = vector + i / kCentres * width;
    const float* const centre = &centres[static_cast<std::size_t>(i * width)];
    table[static_cast<std::size_t>(i)] =
        inner ? inner_product(part, centre, width) : squared_distance(part, centre, width);
  }
}

}  // namespace mt
