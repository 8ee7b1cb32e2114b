// Products of groups on Hopper against sums in double.
#include "kernels/grouped_gemm.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::Input;
using check::Numbers;

using Ends = std::vector<std::int64_t>;

constexpr double kSumError = 2e-4;  // of f32 sums near 60 that are rounded as often

// Groups without rows at either end and between, of one row, and of more than a tile.
std::vector<Ends> groups() {
  return {{0, 5, 205, 205, 269, 398, 399, 399}, {130}, {1, 2, 3}, {64, 128, 700}};
}

// n, and what is summed over or lies across; whole tiles, and parts of them.
struct Sizes {
  std::int64_t n, k;
};
constexpr Sizes kSizes[] = {{256, 64}, {264, 200}, {8, 8}, {520, 192}};

constexpr std::int64_t kGap = 24;  // between one group's matrix and the next's

std::int64_t row_group(const Ends& ends, std::int64_t row) {
  std::int64_t group = 0;
  while (ends[static_cast<std::size_t>(group)] <= row) ++group;
  return group;
}

double at(const std::vector<double>& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }

class GroupedGemmCuda : public check::CudaTest<bf16> {};

TEST_F(GroupedGemmCuda, RowsMeetTheirGroupsMatrix) {
  for (const Ends& ends : groups())
    for (const auto& [n, k] : kSizes)
      for (const bool transpose : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << ends.back() << " rows, " << n << " x " << k << (transpose ? " ^T" : ""));
        const std::int64_t rows = ends.back(), stride = n * k + kGap;
        const Input<bf16> a(rows * k, 1), b(stride * std::ssize(ends), 2);
        const Numbers<bf16> c(rows * n);
        const GroupedRows problem{c.data(), a.data(), b.data(), n, k, stride, transpose, ends};
        if (!cuda::hopper::takes(problem)) GTEST_SKIP() << "not on Hopper";
        std::vector<double> expected;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t j = 0; j < n; ++j) {
            const std::int64_t first = row_group(ends, r) * stride;
            double sum = 0;
            for (std::int64_t x = 0; x < k; ++x)
              sum +=
                  at(a.host, r * k + x) * at(b.host, first + (transpose ? j * k + x : x * n + j));
            expected.push_back(sum);
          }
        check::expect_same_bits(c, 3, [&] { cuda::hopper::grouped_gemm(problem, nullptr); });
        EXPECT_TRUE(near(c, expected, check::kRounding<bf16> + kSumError));
      }
}

template <class C>
void expect_weights(bool accumulate) {
  for (const Ends& ends : groups())
    for (const auto& [n, m] : kSizes) {
      SCOPED_TRACE(testing::Message() << ends.back() << " rows, " << m << " x " << n);
      const std::int64_t rows = ends.back(), stride = m * n + kGap,
                         count = stride * std::ssize(ends);
      const Input<bf16> a(rows * m, 1), b(rows * n, 2);
      const Input<C> before(count, 3);
      const GroupedWeights<C> problem{before.device.data(), a.data(), b.data(), m, n, stride,
                                      accumulate,           ends};
      if (!cuda::hopper::takes(problem)) GTEST_SKIP() << "not on Hopper";
      std::vector<double> expected = before.host;
      for (std::int64_t g = 0, first = 0; g < std::ssize(ends); ++g) {
        const std::int64_t end = ends[static_cast<std::size_t>(g)];
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double& sum = expected[static_cast<std::size_t>(g * stride + i * n + j)];
            if (!accumulate) sum = 0;
            for (std::int64_t r = first; r < end; ++r)
              sum += at(a.host, r * m + i) * at(b.host, r * n + j);
          }
        first = end;
      }
      cuda::hopper::grouped_gemm(problem, nullptr);
      const double twice = accumulate ? 2 : 1;
      EXPECT_TRUE(near(before.device, expected, twice * check::kRounding<C> + kSumError));
    }
}

TEST_F(GroupedGemmCuda, WeightsAreSumsOverTheirGroupsRows) {
  expect_weights<float>(false);
  expect_weights<bf16>(false);
}
TEST_F(GroupedGemmCuda, WeightsAreAddedTo) {
  expect_weights<float>(true);
  expect_weights<bf16>(true);
}

}  // namespace
}  // namespace mt
