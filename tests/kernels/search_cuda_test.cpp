// The kernels of searches on a GPU find what the CPU's do.
#include <algorithm>
#include <cmath>

#include "kernels/nearest_rows.h"
#include "kernels/row_groups.h"
#include "kernels/smallest.h"
#include "tests/kernels/device_numbers.h"
#include "tests/kernels/search_lists.h"

namespace mt {
namespace {

using check::DeviceArray;
using Ints = std::vector<std::int32_t>;

class SearchCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

std::vector<float> whole(std::int64_t count, unsigned seed) {
  std::vector<float> numbers = check::random<float>(count, seed, -3.5, 3.5);
  for (float& number : numbers) number = std::round(number);
  return numbers;
}

TEST_F(SearchCuda, NearestParts) {
  for (const std::int64_t width : {1, 4, 5, 8, 11, 16, 24, 31, 32})
    for (const std::int64_t count : {1, 31, 256, 300})
      for (const std::int64_t rows : {1, 33, 600}) {
        const std::int64_t parts = 3, stride = rows + 2;
        const std::vector<float> x = whole(rows * parts * width, 1),
                                 centres = whole(parts * count * width, 2);
        Ints found(static_cast<std::size_t>(parts * stride), -1);
        NearestParts problem = {.x = x.data(),
                                .centres = centres.data(),
                                .rows = rows,
                                .parts = parts,
                                .width = width,
                                .count = count,
                                .stride = stride};
        cpu::nearest_parts(found.data(), problem);
        const DeviceArray<float> d_x(x), d_centres(centres);
        const DeviceArray<std::int32_t> d_found(found.size());
        problem.x = d_x.data();
        problem.centres = d_centres.data();
        cuda::nearest_parts(d_found.data(), problem, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        ASSERT_EQ(d_found.values(), found) << width << " " << count << " " << rows;
      }
}

// Centres and sizes of all rows.
void means_there(const DeviceArray<float>& centres, const DeviceArray<std::int32_t>& sizes,
                 RowGroups all) {
  const std::int64_t groups = all.parts * all.groups;
  const DeviceArray<double> sums(std::vector<double>(static_cast<std::size_t>(groups * all.width)));
  check::check_cuda(cudaMemset(sizes.data(), 0, static_cast<std::size_t>(groups) * 4));
  const DeviceArray<std::byte> work(cuda::add_to_groups_work(all));
  cuda::add_to_groups(sums.data(), sizes.data(), all, work.data(), nullptr);
  cuda::group_means(centres.data(), sums.data(), sizes.data(), groups, all.width, nullptr);
}

// A grid has at most 65535 blocks in its second and third dimension.
TEST_F(SearchCuda, FindsInManyParts) {
  const std::int64_t parts = 70000, rows = 5, groups = 2;
  const std::vector<float> x = whole(rows * parts, 1), centres = whole(parts * groups, 2);
  Ints found(static_cast<std::size_t>(parts * rows)),
      sizes(static_cast<std::size_t>(parts * groups));
  std::vector<float> means = centres;
  cpu::nearest_parts(found.data(), {.x = x.data(),
                                    .centres = centres.data(),
                                    .rows = rows,
                                    .parts = parts,
                                    .width = 1,
                                    .count = groups,
                                    .stride = rows});
  std::vector<double> sums(means.size());
  cpu::add_to_groups(sums.data(), sizes.data(), {found.data(), x.data(), rows, parts, 1, groups});
  cpu::group_means(means.data(), sums.data(), sizes.data(), parts * groups, 1);
  const DeviceArray<float> d_x(x), d_centres(centres);
  const DeviceArray<std::int32_t> d_found(found.size()), d_sizes(sizes.size());
  cuda::nearest_parts(d_found.data(),
                      {.x = d_x.data(),
                       .centres = d_centres.data(),
                       .rows = rows,
                       .parts = parts,
                       .width = 1,
                       .count = groups,
                       .stride = rows},
                      nullptr);
  means_there(d_centres, d_sizes, {d_found.data(), d_x.data(), rows, parts, 1, groups});
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(d_found.values(), found);
  EXPECT_EQ(d_sizes.values(), sizes);
  EXPECT_EQ(d_centres.values(), means);  // of whole numbers, so that sums are exact
}

TEST_F(SearchCuda, NearestOfProducts) {
  for (const std::int64_t rows : {1, 31, 300})
    for (const std::int64_t count : {1, 33, 1000}) {
      const std::vector<float> products = whole(rows * count, 1), centres = whole(count * 40, 2);
      std::vector<float> half(static_cast<std::size_t>(count)),
          best(static_cast<std::size_t>(rows), -INFINITY);
      Ints found(best.size());
      const DeviceArray<float> d_products(products), d_centres(centres), d_half(half.size()),
          d_best(best);
      const DeviceArray<std::int32_t> d_found(found);
      cpu::half_squares(half.data(), centres.data(), count, 40);
      cuda::half_squares(d_half.data(), d_centres.data(), count, 40, nullptr);
      EXPECT_EQ(d_half.values(), half);
      for (const std::int64_t first : {0, 5000}) {  // what is as near again changes nothing
        cpu::nearest_of_products(found.data(), best.data(),
                                 {products.data(), half.data(), rows, count, first});
        cuda::nearest_of_products(d_found.data(), d_best.data(),
                                  {d_products.data(), d_half.data(), rows, count, first}, nullptr);
      }
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_found.values(), found);
      EXPECT_EQ(d_best.values(), best);
    }
}

TEST_F(SearchCuda, GroupMeansResidualsCentresAndCodes) {
  for (const std::int64_t width : {1, 24, 256, 300})
    for (const std::int64_t rows : {1, 33, 5000}) {
      const std::int64_t parts = 2, groups = 9;
      const std::vector<float> x = check::random<float>(rows * parts * width, 1);
      Ints found;
      for (std::int64_t i = 0; i < parts * rows; ++i)
        found.push_back(static_cast<std::int32_t>(i * i % (groups - 1)));
      std::vector<float> centres = check::random<float>(parts * groups * width, 2);
      Ints sizes(static_cast<std::size_t>(parts * groups));
      const DeviceArray<float> d_x(x), d_centres(centres),
          d_y(static_cast<std::size_t>(rows * width));
      const DeviceArray<std::int32_t> d_found(found), d_sizes(sizes.size());
      const RowGroups of_host = {found.data(), x.data(), rows, parts, width, groups},
                      of_device = {d_found.data(), d_x.data(), rows, parts, width, groups};
      std::vector<double> sums(centres.size());
      cpu::add_to_groups(sums.data(), sizes.data(), of_host);
      cpu::group_means(centres.data(), sums.data(), sizes.data(), parts * groups, width);
      means_there(d_centres, d_sizes, of_device);
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_sizes.values(), sizes);
      const std::vector<float> got = d_centres.values();
      for (std::size_t i = 0; i < centres.size(); ++i)
        ASSERT_NEAR(got[i], centres[i], 2e-7F * (1 + std::abs(centres[i]))) << width << " " << i;
      std::vector<float> y(static_cast<std::size_t>(rows * width));
      cpu::row_residuals(y.data(), got.data(), {found.data(), x.data(), rows, 1, width, groups});
      cuda::row_residuals(d_y.data(), d_centres.data(),
                          {d_found.data(), d_x.data(), rows, 1, width, groups}, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_y.values(), y);
      std::vector<float> near(x.size());
      const DeviceArray<float> d_near(near.size());
      cpu::rows_of_centres(near.data(), got.data(), of_host);
      cuda::rows_of_centres(d_near.data(), d_centres.data(), of_device, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_near.values(), near);
      std::vector<std::uint8_t> codes(found.size());
      const DeviceArray<std::uint8_t> d_codes(codes.size());
      cpu::row_codes(codes.data(), of_host);
      cuda::row_codes(d_codes.data(), of_device, nullptr);
      check::check_cuda(cudaDeviceSynchronize());
      EXPECT_EQ(d_codes.values(), codes);
    }
}

TEST_F(SearchCuda, Smallest) {
  for (const std::int64_t cols : {1, 31, 1024, 1025, 20000})
    for (const std::int64_t count : {1, 10, 1000, 4096}) {
      const std::int64_t rows = 5;
      std::vector<float> values = whole(rows * cols, 1);  // many are equal
      for (std::size_t i = 0; i < values.size(); i += 3)
        values[i] += 0.001F * static_cast<float>(i);
      values[0] = std::nanf("");
      const std::vector<float> from = check::random<float>(cols, 2);
      std::vector<std::int64_t> begins = {0};  // rows of other lengths
      for (std::int64_t row = 1; row <= rows; ++row)
        begins.push_back(row * (row - 1) * cols / rows);
      Ints ids;
      for (std::size_t i = 0; i < values.size(); ++i)
        ids.push_back(static_cast<std::int32_t>(values.size() - i));
      const DeviceArray<float> d_values(values), d_from(from),
          d_distances(static_cast<std::size_t>(rows * count));
      const DeviceArray<std::int64_t> d_begins(begins);
      const DeviceArray<std::int32_t> d_ids(ids), d_numbers(static_cast<std::size_t>(rows * count));
      const auto expect_same = [&](const SmallestOf& of_host, const SmallestOf& of_device) {
        Ints numbers(static_cast<std::size_t>(rows * count));
        std::vector<float> distances(numbers.size());
        cpu::smallest(numbers.data(), distances.data(), of_host);
        cuda::smallest(d_numbers.data(), d_distances.data(), of_device, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        EXPECT_EQ(d_numbers.values(), numbers) << cols << " " << count;
        EXPECT_EQ(d_distances.values(), distances) << cols << " " << count;
      };
      expect_same({.values = values.data(),
                   .from = from.data(),
                   .rows = rows,
                   .cols = cols,
                   .count = count},
                  {.values = d_values.data(),
                   .from = d_from.data(),
                   .rows = rows,
                   .cols = cols,
                   .count = count});
      expect_same({.values = values.data(),
                   .begins = begins.data(),
                   .numbers = ids.data(),
                   .rows = rows,
                   .count = count},
                  {.values = d_values.data(),
                   .begins = d_begins.data(),
                   .numbers = d_ids.data(),
                   .rows = rows,
                   .count = count});
    }
}

void expect_scanned(const check::MadeLists& made) {
  const check::Scanned expected(made);
  const DeviceArray<std::uint8_t> codes(made.codes);
  const DeviceArray<std::int64_t> begins(made.begins), places(made.places);
  const DeviceArray<float> centres(made.centres), part_centres(made.part_centres),
      ranges(made.ranges), x(made.x), terms(expected.terms.size()),
      tables(std::max<std::size_t>(1, expected.tables.size())),
      distances(expected.distances.size());
  const DeviceArray<std::int32_t> ids(made.ids), which(made.which),
      numbers(expected.numbers.size());
  CodeLists lists = made.of_host();
  lists.codes = codes.data();
  lists.begins = begins.data();
  lists.centres = lists.centres ? centres.data() : nullptr;
  lists.numbers.ranges = ranges.data();
  lists.part_centres = part_centres.data();
  if (made.kind == ListCodes::products) {
    cuda::code_terms(terms.data(), lists, nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    const std::vector<float> got = terms.values();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected.terms[i], 1e-5F * (1 + std::abs(expected.terms[i])));
  }
  lists.terms = terms.data();
  cuda::scan_lists(distances.data(), numbers.data(),
                   {.lists = lists,
                    .ids = ids.data(),
                    .x = x.data(),
                    .rows = made.rows,
                    .visited = made.visited,
                    .which = which.data(),
                    .places = places.data(),
                    .tables = tables.data()},
                   nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  EXPECT_EQ(numbers.values(), expected.numbers);
  const std::vector<float> got = distances.values();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected.distances[i], 2e-5F * (1 + std::abs(expected.distances[i]))) << i;
}

TEST_F(SearchCuda, ListScan) {
  expect_scanned(check::MadeLists(ListCodes::products));
  expect_scanned(check::MadeLists(ListCodes::floats));
  for (const NumberCodes::Kind kind : check::kNumberKinds)
    expect_scanned(check::MadeLists(ListCodes::numbers, kind));
}

}  // namespace
}  // namespace mt
