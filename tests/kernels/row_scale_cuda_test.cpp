// Lengths of rows on the GPU against the CPU's in double.
#include "kernels/row_scale.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class RowScaleCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(RowScaleCuda, check::ElementTypes);

struct Case {
  std::int64_t groups, cols;
  RowBlock block;
};
const Case kCases[] = {
    {0, 8, {2, 0, 1, 0}}, {1, 1, {1, 0, 1, 0}}, {31, 33, {6, 4, 1, 0}}, {3, 1000, {40, 10, 30, 0}}};

TYPED_TEST(RowScaleCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    const std::int64_t rows = c.groups * c.block.period, count = c.groups * c.block.count;
    SCOPED_TRACE(testing::Message() << rows << " rows of " << c.cols);
    const Input<T> x(rows * c.cols, 1, 0, 0.5, 1), m(count, 2, 0, 1, 2);
    const Numbers<float> squares(rows), factor(std::vector<double>(rows, 1.0), 0);
    std::vector<double> expected(rows), expected_factor(rows, 1.0), y_expected(rows * c.cols);
    cuda::row_squares(squares.data(), x.data(), rows, c.cols, nullptr);
    cpu::row_squares(expected.data(), x.host.data(), rows, c.cols);
    EXPECT_TRUE(near(squares, expected));
    cuda::row_factors(factor.data(), m.data(), squares.data(), count, c.block, nullptr);
    cpu::row_factors(expected_factor.data(), m.host.data(), expected.data(), count, c.block);
    EXPECT_TRUE(near(factor, expected_factor));
    const Numbers<T> y(rows * c.cols);
    cuda::scale_rows(y.data(), x.data(), factor.data(), rows, c.cols, nullptr);
    cpu::scale_rows(y_expected.data(), x.host.data(), expected_factor.data(), rows, c.cols);
    EXPECT_TRUE(near(y, y_expected));
    const Input<T> of_columns(c.cols, 1, 0, 1, 3);
    cuda::scale_columns(y.data(), x.data(), of_columns.data(), rows, c.cols, nullptr);
    cpu::scale_columns(y_expected.data(), x.host.data(), of_columns.host.data(), rows, c.cols);
    EXPECT_TRUE(near(y, y_expected));
    cuda::multiply(y.data(), x.data(), x.data(), rows * c.cols, nullptr);
    cpu::multiply(y_expected.data(), x.host.data(), x.host.data(), rows * c.cols);
    EXPECT_TRUE(near(y, y_expected));
    if constexpr (!std::is_same_v<T, check::fp16>) {
      const Numbers<T> dm(m.host, 0);
      std::vector<double> dm_expected = m.host;
      cuda::add_over_norms(dm.data(), factor.data(), squares.data(), count, c.block, nullptr);
      cpu::add_over_norms(dm_expected.data(), expected_factor.data(), expected.data(), count,
                          c.block);
      EXPECT_TRUE(near(dm, dm_expected));
    }
  }
}

}  // namespace
}  // namespace mt
