// Products of groups on Hopper against sums in double.
#include "kernels/grouped_gemm.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::Input;
using check::Numbers;

using Ends = std::vector<std::int64_t>;

constexpr double kSumError = 2e-4;  // of f32 sums near 60 that are rounded as often
constexpr std::int64_t kGap = 24;   // between one group's matrix and the next's
constexpr std::int64_t kBehind =
    70;                              // rows behind the last group's, where the device knows its end
constexpr std::int64_t kAcross = 8;  // rows and columns of those sums that are compared, of many

struct GroupCase {
  Ends ends;
  std::int64_t n, k;  // k: what is summed over, or lies across
  bool reversed = false, sampled = false;
};

std::ostream& operator<<(std::ostream& out, const GroupCase& c) {
  return out << c.ends.back() << " rows, " << c.n << " x " << c.k
             << (c.reversed ? ", reversed" : "");
}

// Groups without rows at either end, between and alone, of one row, and of more than a tile; whole
// tiles and parts of them.
std::vector<GroupCase> group_cases() {
  std::vector<GroupCase> all;
  for (const Ends& ends :
       std::vector<Ends>{{0, 5, 205, 205, 269, 398, 399, 399}, {1, 2, 3}, {64, 128, 700}, {0, 0}})
    for (const auto& [n, k] : {std::pair{256, 64}, {264, 200}, {8, 8}})
      for (const bool reversed : {false, true}) all.push_back({ends, n, k, reversed});
  return all;
}

// The matrices of the groups in memory, of so many numbers each.
struct Places {
  std::int64_t groups, stride;
  bool reversed;

  Places(const GroupCase& c, std::int64_t size)
      : groups(std::ssize(c.ends)), stride(size + kGap), reversed(c.reversed) {}
  std::int64_t count() const { return groups * stride; }
  std::int64_t of(std::int64_t group) const {
    return (reversed ? groups - 1 - group : group) * stride;
  }
  std::int64_t step() const { return reversed ? -stride : stride; }
};

double at(const std::vector<double>& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }

// body(group, its first row, its last + 1)
template <class Body>
void for_groups(const Ends& ends, const Body& body) {
  for (std::int64_t g = 0, first = 0; g < std::ssize(ends); ++g) {
    const std::int64_t end = ends[static_cast<std::size_t>(g)];
    body(g, first, end);
    first = end;
  }
}

// Compares each element, or some, with what expected(i, j) says of it.
template <class T, class Expected>
void expect_near(const std::vector<T>& got, std::int64_t from, std::int64_t rows, std::int64_t cols,
                 bool sampled, double tolerance, const Expected& expected) {
  const std::int64_t step = sampled ? kAcross + 3 : 1;
  std::vector<double> some, wanted;
  for (std::int64_t i = 0; i < rows; i += step)
    for (std::int64_t j = i % step; j < cols; j += step) {
      some.push_back(at(got, from + i * cols + j));
      wanted.push_back(expected(i, j));
    }
  EXPECT_TRUE(check::near(some, wanted, tolerance));
}

std::int64_t first_row(const GroupCase& c, std::int64_t group) {
  return group == 0 ? 0 : c.ends[static_cast<std::size_t>(group - 1)];
}

// body(ends on the device, of which group on they are), of all groups and of those behind the
// first.
template <class Body>
void for_both_ends(const GroupCase& c, const Body& body) {
  const std::int64_t groups = std::ssize(c.ends);
  const check::DeviceArray<std::int32_t> ends(
      std::vector<std::int32_t>(c.ends.begin(), c.ends.end()));
  for (const std::int64_t first : {0, 1})
    body(GroupEnds{.there = ends.data() + first,
                   .groups = groups - first,
                   .rows = c.ends.back() + kBehind,
                   .from_zero = first == 0},
         first);
}

class GroupedGemmCuda : public check::CudaTest<bf16> {
 protected:
  void SetUp() override {
    check::CudaTest<bf16>::SetUp();
    if (!IsSkipped() && !cuda::hopper_kernels()) GTEST_SKIP() << "not on Hopper";
  }
};

void expect_rows(const GroupCase& c, bool transpose) {
  SCOPED_TRACE(testing::Message() << c << (transpose ? " ^T" : ""));
  const auto& [ends, n, k, reversed, sampled] = c;
  const std::int64_t rows = ends.back();
  const Places places(c, n * k);
  const Input<bf16> a((rows + kBehind) * k, 1), b(places.count(), 2);
  const Numbers<bf16> out(rows * n);
  const GroupedRows problem{out.data(), a.data(), b.data() + places.of(0), n, k, places.step(),
                            transpose,  {ends}};
  ASSERT_TRUE(cuda::hopper::takes(problem));
  check::expect_same_bits(out, 3, [&] { cuda::hopper::grouped_gemm(problem, nullptr); });
  const std::vector<double> got = out.values();
  for_both_ends(c, [&](const GroupEnds& counted, std::int64_t first) {
    const Numbers<bf16> again((rows + kBehind) * n);  // not a number
    GroupedRows same = problem;
    same.c = again.data();
    same.b += first * places.step();
    same.ends = counted;
    ASSERT_TRUE(cuda::hopper::takes(same));
    cuda::hopper::grouped_gemm(same, nullptr);
    const std::vector<double> there = again.values();
    const auto own = there.begin() + first_row(c, first) * n, behind = there.begin() + rows * n;
    EXPECT_TRUE(std::equal(own, behind, got.begin() + first_row(c, first) * n)) << first;
    const auto untouched = [](double value) { return std::isnan(value); };
    EXPECT_TRUE(std::all_of(there.begin(), own, untouched)) << first;
    EXPECT_TRUE(std::all_of(behind, there.end(), untouched)) << first;
  });
  for_groups(ends, [&](std::int64_t g, std::int64_t first, std::int64_t end) {
    expect_near(got, first * n, end - first, n, sampled, check::kRounding<bf16> + kSumError,
                [&](std::int64_t i, std::int64_t j) {
                  double sum = 0;
                  for (std::int64_t x = 0; x < k; ++x)
                    sum += at(a.host, (first + i) * k + x) *
                           at(b.host, places.of(g) + (transpose ? j * k + x : x * n + j));
                  return sum;
                });
  });
}

TEST_F(GroupedGemmCuda, RowsMeetTheirGroupsMatrix) {
  for (const GroupCase& c : group_cases())
    for (const bool transpose : {false, true}) expect_rows(c, transpose);
}

template <class C>
void expect_weights(const GroupCase& c, bool accumulate) {
  SCOPED_TRACE(testing::Message() << c << (accumulate ? ", added" : ""));
  const auto& [ends, n, m, reversed, sampled] = c;
  const std::int64_t rows = ends.back();
  const Places places(c, m * n);
  const Input<bf16> a((rows + kBehind) * m, 1), b((rows + kBehind) * n, 2);
  const Input<C> before(places.count(), 3);
  const GroupedWeights<C> problem{before.device.data() + places.of(0),
                                  a.data(),
                                  b.data(),
                                  m,
                                  n,
                                  places.step(),
                                  accumulate,
                                  {ends}};
  ASSERT_TRUE(cuda::hopper::takes(problem));
  cuda::hopper::grouped_gemm(problem, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  const std::vector<double> got = before.device.values();
  for_both_ends(c, [&](const GroupEnds& counted, std::int64_t first) {
    const Input<C> again(places.count(), 3);
    GroupedWeights<C> same = problem;
    same.c = again.device.data() + places.of(first);
    same.ends = counted;
    cuda::hopper::grouped_gemm(same, nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    const std::vector<double> there = again.device.values();
    for (std::int64_t g = first; g < std::ssize(ends); ++g) {
      const auto own = there.begin() + places.of(g);
      EXPECT_TRUE(std::equal(own, own + m * n, got.begin() + places.of(g))) << g;
    }
  });
  for_groups(ends, [&](std::int64_t g, std::int64_t first, std::int64_t end) {
    expect_near(got, places.of(g), m, n, sampled, check::kRounding<C> + kSumError,
                [&](std::int64_t i, std::int64_t j) {
                  double sum = accumulate ? at(before.host, places.of(g) + i * n + j) : 0;
                  for (std::int64_t r = first; r < end; ++r)
                    sum += at(a.host, r * m + i) * at(b.host, r * n + j);
                  return sum;
                });
    for (std::int64_t i = 0; i < kGap; ++i)  // what lies between is left alone
      EXPECT_EQ(at(got, places.of(g) + m * n + i), at(before.host, places.of(g) + m * n + i));
  });
}

TEST_F(GroupedGemmCuda, WeightsAreSumsOverTheirGroupsRows) {
  for (const GroupCase& c : group_cases())
    for (const bool accumulate : {false, true}) {
      expect_weights<float>(c, accumulate);
      expect_weights<bf16>(c, accumulate);
    }
}

// What is no number in one group's rows stays in its sums, also where those of the next begin in
// the same 64 rows.
TEST_F(GroupedGemmCuda, WhatIsNoNumberStaysInItsGroup) {
  const Ends ends{3, 70, 70, 200};
  const std::int64_t m = 136, n = 264, rows = ends.back();
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t group = 0; group < std::ssize(ends); ++group) {
    SCOPED_TRACE(group);
    const std::int64_t first = group == 0 ? 0 : ends[static_cast<std::size_t>(group - 1)],
                       end = ends[static_cast<std::size_t>(group)];
    const auto with_none = [&](std::int64_t columns) {
      std::vector<bf16> x(static_cast<std::size_t>(rows * columns), bf16(1.0f));
      std::fill(x.begin() + first * columns, x.begin() + end * columns, bf16(none));
      return x;
    };
    const check::DeviceArray<bf16> a(with_none(m)), b(with_none(n));
    const Numbers<float> c(std::ssize(ends) * m * n);
    const GroupedWeights<float> problem{c.data(), a.data(), b.data(), m, n, m * n, false, {ends}};
    cuda::hopper::grouped_gemm(problem, nullptr);
    const std::vector<double> got = c.values();
    for_groups(ends, [&](std::int64_t g, std::int64_t begin, std::int64_t last) {
      for (std::int64_t i = 0; i < m * n; ++i) {
        const double sum = at(got, g * m * n + i);
        if (g == group && last > begin)
          ASSERT_TRUE(std::isnan(sum)) << i;
        else
          ASSERT_EQ(sum, static_cast<double>(last - begin)) << g << ", " << i;
      }
    });
  }
}

// More tiles than a GPU has multiprocessors, and more below one another than are taken at a time.
TEST_F(GroupedGemmCuda, BlocksGoFromTileToTile) {
  const GroupCase rows{.ends = {2600, 2600, 7100, 7101}, .n = 1032, .k = 200, .sampled = true};
  for (const bool transpose : {false, true}) expect_rows(rows, transpose);
  const GroupCase weights{.ends = {300, 300, 301, 800}, .n = 1032, .k = 4400, .sampled = true};
  for (const bool accumulate : {false, true}) {
    expect_weights<float>(weights, accumulate);
    expect_weights<bf16>(weights, accumulate);
  }
}

}  // namespace
}  // namespace mt
