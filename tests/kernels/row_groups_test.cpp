#include "kernels/row_groups.h"

#include <algorithm>

#include "tests/kernels/check.h"

namespace mt {
namespace {

class MeansOf : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};

INSTANTIATE_TEST_SUITE_P(PartsAndWidths, MeansOf,
                         testing::Values(std::pair(2, 70), std::pair(9, 4), std::pair(7, 3)));

TEST_P(MeansOf, RowsOfAGroup) {
  const std::int64_t rows = 2500, groups = 7;
  const auto [parts, width] = GetParam();
  const std::vector<float> x = check::random<float>(rows * parts * width, 1);
  std::vector<std::int32_t> found;
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t i = 0; i < rows; ++i)  // the last group of each part has none
      found.push_back(static_cast<std::int32_t>((i * i + part) % (groups - 1)));
  const std::vector<float> before = check::random<float>(parts * groups * width, 2);
  std::vector<float> centres = before;
  std::vector<std::int32_t> sizes(static_cast<std::size_t>(parts * groups));
  check::expect_same_on_any_threads([&] {
    centres = before;
    std::vector<double> sums(centres.size());
    std::ranges::fill(sizes, 0);
    cpu::add_to_groups(sums.data(), sizes.data(),
                       {.found = found.data(),
                        .x = x.data(),
                        .rows = rows,
                        .parts = parts,
                        .width = width,
                        .groups = groups});
    cpu::group_means(centres.data(), sums.data(), sizes.data(), parts * groups, width);
    return centres;
  });
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t g = 0; g < groups; ++g) {
      std::int32_t size = 0;
      std::vector<double> sum(static_cast<std::size_t>(width));
      for (std::int64_t i = 0; i < rows; ++i) {
        if (found[static_cast<std::size_t>(part * rows + i)] != g) continue;
        ++size;
        for (std::int64_t c = 0; c < width; ++c)
          sum[static_cast<std::size_t>(c)] +=
              static_cast<double>(x[static_cast<std::size_t>((i * parts + part) * width + c)]);
      }
      EXPECT_EQ(sizes[static_cast<std::size_t>(part * groups + g)], size);
      for (std::int64_t c = 0; c < width; ++c) {
        const auto at = static_cast<std::size_t>((part * groups + g) * width + c);
        if (size == 0)
          EXPECT_EQ(centres[at], before[at]);
        else
          EXPECT_FLOAT_EQ(centres[at], static_cast<float>(sum[static_cast<std::size_t>(c)] / size));
      }
    }
}

TEST(RowGroups, ResidualsAreWithoutTheCentre) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, centres = {1, 1, 0, 4};
  const std::vector<std::int32_t> found = {1, 0, 1};
  std::vector<float> y(6);
  cpu::row_residuals(y.data(), centres.data(),
                     {.found = found.data(), .x = x.data(), .rows = 3, .width = 2, .groups = 2});
  EXPECT_EQ(y, (std::vector<float>{1, -2, 2, 3, 5, 2}));
}

TEST(RowGroups, CentresOfPartsStandSideBySide) {
  const std::vector<float> centres = {1, 2, 3, 4, 5, 6, 7, 8};  // two of each part
  const std::vector<std::int32_t> found = {1, 0, 1, 0, 0, 1};
  std::vector<float> y(12);
  cpu::rows_of_centres(y.data(), centres.data(),
                       {.found = found.data(), .rows = 3, .parts = 2, .width = 2, .groups = 2});
  EXPECT_EQ(y, (std::vector<float>{3, 4, 5, 6, 1, 2, 5, 6, 3, 4, 7, 8}));
}

TEST(RowGroups, CodesOfPartsStandSideBySide) {
  const std::vector<std::int32_t> found = {1, 0, 255, 7, 254, 2};
  std::vector<std::uint8_t> y(6);
  cpu::row_codes(y.data(), {.found = found.data(), .rows = 3, .parts = 2});
  EXPECT_EQ(y, (std::vector<std::uint8_t>{1, 7, 0, 254, 255, 2}));
}

}  // namespace
}  // namespace mt
