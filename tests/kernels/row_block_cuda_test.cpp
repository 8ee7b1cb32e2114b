// Blocks of rows on the GPU against the CPU's in double.
#include "kernels/row_block.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class RowBlockCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(RowBlockCuda, check::ElementTypes);

struct Case {
  std::int64_t groups, cols, wide_cols;
  RowBlock block;
};
const Case kCases[] = {{0, 4, 4, {2, 0, 1, 0}},
                       {1, 1, 1, {1, 0, 1, 0}},
                       {31, 16, 48, {6, 4, 1, 16}},
                       {33, 7, 9, {5, 1, 3, 2}},
                       {1, 16, 32, {2000, 1000, 1000, 16}}};

TYPED_TEST(RowBlockCuda, SpreadsAndCollects) {
  using T = TypeParam;
  for (const Case& c : kCases) {
    const std::int64_t rows = c.groups * c.block.count, wide_rows = c.groups * c.block.period;
    SCOPED_TRACE(testing::Message() << rows << " of " << wide_rows << " rows");
    const Input<T> narrow(rows * c.cols, 1, 0);
    const Input<T> before(wide_rows * c.wide_cols, 2, 0);
    const Numbers<T> wide(before.host, 0);
    std::vector<double> expected = before.host;
    cuda::spread(wide.data(), c.wide_cols, narrow.data(), rows, c.cols, c.block, 1.5f, nullptr);
    cpu::spread<double>(expected.data(), c.wide_cols, narrow.host.data(), rows, c.cols, c.block,
                        1.5);
    EXPECT_TRUE(near(wide, expected));
    if constexpr (!std::is_same_v<T, check::fp16>) {
      const Input<float> sums(wide_rows * c.wide_cols, 3, 0);
      const Numbers<T> collected(narrow.host, 0);
      expected = narrow.host;
      cuda::collect(collected.data(), rows, c.cols, sums.data(), c.wide_cols, c.block, 0.5f,
                    nullptr);
      cpu::collect<double>(expected.data(), rows, c.cols, sums.host.data(), c.wide_cols, c.block,
                           0.5);
      EXPECT_TRUE(near(collected, expected));
    }
  }
}

}  // namespace
}  // namespace mt
