#include "kernels/nearest_rows.h"

#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Whole numbers near each other, whose sums are exact, so that many are as near.
std::vector<float> whole(std::int64_t count, unsigned seed) {
  std::vector<float> numbers = check::random<float>(count, seed, -3.5, 3.5);
  for (float& number : numbers) number = std::round(number);
  return numbers;
}

std::int32_t first_nearest(const float* x, const float* centres, std::int64_t count,
                           std::int64_t width) {
  double best = INFINITY;
  std::int32_t found = -1;
  for (std::int64_t j = 0; j < count; ++j) {
    double far = 0;
    for (std::int64_t c = 0; c < width; ++c)
      far += std::pow(static_cast<double>(x[c]) - static_cast<double>(centres[j * width + c]), 2);
    if (far < best) {
      best = far;
      found = static_cast<std::int32_t>(j);
    }
  }
  return found;
}

TEST(NearestRows, PartsHaveCentresOfTheirOwn) {
  for (const std::int64_t width : {1, 4, 5, 32})
    for (const std::int64_t count : {1, 31, 256, 257})
      for (const std::int64_t rows : {0, 1, 33, 100}) {
        const std::int64_t parts = 3, stride = rows + 2;
        const std::vector<float> x = whole(rows * parts * width, 1),
                                 centres = whole(parts * count * width, 2);
        std::vector<std::int32_t> found(static_cast<std::size_t>(parts * stride), -7),
            expected = found;
        for (std::int64_t part = 0; part < parts; ++part)
          for (std::int64_t i = 0; i < rows; ++i)
            expected[static_cast<std::size_t>(part * stride + i)] =
                first_nearest(x.data() + (i * parts + part) * width,
                              centres.data() + part * count * width, count, width);
        cpu::nearest_parts(found.data(), {.x = x.data(),
                                          .centres = centres.data(),
                                          .rows = rows,
                                          .parts = parts,
                                          .width = width,
                                          .count = count,
                                          .stride = stride});
        EXPECT_EQ(found, expected) << width << " columns, " << count << " centres, " << rows;
      }
}

TEST(NearestRows, OfProductsGoesOnFromCentresBefore) {
  const std::int64_t rows = 33, count = 70, columns = 40, before = 30;
  const std::vector<float> x = whole(rows * columns, 3), centres = whole(count * columns, 4);
  std::vector<float> half(static_cast<std::size_t>(count)),
      best(static_cast<std::size_t>(rows), -INFINITY);
  cpu::half_squares(half.data(), centres.data(), count, columns);
  std::vector<std::int32_t> found(static_cast<std::size_t>(rows));
  for (const auto& [first, some] : {std::pair{std::int64_t{0}, before}, {before, count - before}}) {
    std::vector<float> products;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = first; j < first + some; ++j) {
        float sum = 0;
        for (std::int64_t c = 0; c < columns; ++c)
          sum += x[static_cast<std::size_t>(i * columns + c)] *
                 centres[static_cast<std::size_t>(j * columns + c)];
        products.push_back(sum);
      }
    cpu::nearest_of_products(found.data(), best.data(),
                             {.products = products.data(),
                              .half_squares = half.data() + first,
                              .rows = rows,
                              .count = some,
                              .first = first});
  }
  for (std::int64_t i = 0; i < rows; ++i)
    EXPECT_EQ(found[static_cast<std::size_t>(i)],
              first_nearest(x.data() + i * columns, centres.data(), count, columns))
        << i;
}

}  // namespace
}  // namespace mt
