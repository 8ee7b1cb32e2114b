// Weighted SwiGLU on the GPU against the CPU's in double.
#include "kernels/weighted_swiglu.h"

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class WeightedSwigluCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(WeightedSwigluCuda, check::ElementTypes);

// Rows for a warp and for a block, in whole packs and not.
TYPED_TEST(WeightedSwigluCuda, AgreesWithTheCpu) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 37})
    for (const std::int64_t cols : {8, 33, 768, 4100, 14336}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << cols);
      const std::int64_t count = rows * cols;
      const Input<T> x(2 * count, 1), dy(count, 2);
      const Input<float> w(rows, 3);
      const Numbers<T> y(count), dx(2 * count);
      const Numbers<float> dw(rows);
      std::vector<double> y_expected(count), dx_expected(2 * count), dw_expected(rows);
      cuda::weighted_swiglu_forward(y.data(), x.data(), w.data(), rows, cols, nullptr);
      cuda::weighted_swiglu_backward(dx.data(), dw.data(), dy.data(), x.data(), w.data(), rows,
                                     cols, nullptr);
      cpu::weighted_swiglu_forward(y_expected.data(), x.host.data(), w.host.data(), rows, cols);
      cpu::weighted_swiglu_backward(dx_expected.data(), dw_expected.data(), dy.host.data(),
                                    x.host.data(), w.host.data(), rows, cols);
      EXPECT_TRUE(near(y, y_expected));
      EXPECT_TRUE(near(dx, dx_expected));
      EXPECT_TRUE(near(dw, dw_expected, 1e-4));
    }
}

}  // namespace
}  // namespace mt
