// Activations on the GPU against the CPU's in double.
#include "kernels/activation.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::Input;
using check::Numbers;

template <class T>
class ActivationCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(ActivationCuda, check::ElementTypes);

struct Size {
  std::int64_t rows, cols, offset;
};
constexpr Size kSizes[] = {{0, 8, 0},   {1, 1, 0},    {1, 31, 0},   {1, 33, 1},   {3, 33, 0},
                           {5, 264, 0}, {7, 1000, 1}, {3, 4099, 0}, {70, 1024, 0}};

// forward(y, x), backward(dx, dy, x) on either side.
template <class T, class CudaForward, class CudaBackward, class CpuForward, class CpuBackward>
void expect_agreement(const Size& s, int width, const CudaForward& cuda_forward,
                      const CudaBackward& cuda_backward, const CpuForward& cpu_forward,
                      const CpuBackward& cpu_backward) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << " at " << s.offset);
  const std::int64_t count = s.rows * s.cols;
  const Input<T> x(width * count, 1, s.offset, -6, 6), dy(count, 2, s.offset);
  const Numbers<T> y(count, s.offset), dx(width * count, s.offset);
  cuda_forward(y.data(), x.data());
  cuda_backward(dx.data(), dy.data(), x.data());
  std::vector<double> expected(count);
  cpu_forward(expected.data(), x.host.data());
  EXPECT_TRUE(near(y, expected));
  expected.resize(width * count);
  cpu_backward(expected.data(), dy.host.data(), x.host.data());
  EXPECT_TRUE(near(dx, expected));
}

TYPED_TEST(ActivationCuda, Gelu) {
  using T = TypeParam;
  for (const GeluForm form : {GeluForm::tanh, GeluForm::erf, GeluForm::quick})
    for (const Size& s : kSizes) {
      const std::int64_t n = s.rows * s.cols;
      expect_agreement<T>(
          s, 1, [&](T* y, const T* x) { cuda::gelu_forward(y, x, n, form, nullptr); },
          [&](T* dx, const T* dy, const T* x) { cuda::gelu_backward(dx, dy, x, n, form, nullptr); },
          [&](double* y, const double* x) { cpu::gelu_forward(y, x, n, form); },
          [&](double* dx, const double* dy, const double* x) {
            cpu::gelu_backward(dx, dy, x, n, form);
          });
    }
}

TYPED_TEST(ActivationCuda, Relu) {
  using T = TypeParam;
  for (const Size& s : kSizes) {
    const std::int64_t n = s.rows * s.cols;
    expect_agreement<T>(
        s, 1, [&](T* y, const T* x) { cuda::relu_forward(y, x, n, nullptr); },
        [&](T* dx, const T* dy, const T* x) { cuda::relu_backward(dx, dy, x, n, nullptr); },
        [&](double* y, const double* x) { cpu::relu_forward(y, x, n); },
        [&](double* dx, const double* dy, const double* x) { cpu::relu_backward(dx, dy, x, n); });
  }
}

TYPED_TEST(ActivationCuda, SquaredRelu) {
  using T = TypeParam;
  for (const Size& s : kSizes) {
    const std::int64_t n = s.rows * s.cols;
    expect_agreement<T>(
        s, 1, [&](T* y, const T* x) { cuda::squared_relu_forward(y, x, n, nullptr); },
        [&](T* dx, const T* dy, const T* x) { cuda::squared_relu_backward(dx, dy, x, n, nullptr); },
        [&](double* y, const double* x) { cpu::squared_relu_forward(y, x, n); },
        [&](double* dx, const double* dy, const double* x) {
          cpu::squared_relu_backward(dx, dy, x, n);
        });
  }
}

TYPED_TEST(ActivationCuda, Tanh) {
  using T = TypeParam;
  for (const Size& s : kSizes) {
    const std::int64_t n = s.rows * s.cols;
    expect_agreement<T>(
        s, 1, [&](T* y, const T* x) { cuda::tanh_forward(y, x, n, nullptr); },
        [&](T* dx, const T* dy, const T* y) { cuda::tanh_backward(dx, dy, y, n, nullptr); },
        [&](double* y, const double* x) { cpu::tanh_forward(y, x, n); },
        [&](double* dx, const double* dy, const double* y) { cpu::tanh_backward(dx, dy, y, n); });
  }
}

TYPED_TEST(ActivationCuda, Clamped) {
  using T = TypeParam;
  for (const ClampedGate& of : {ClampedGate{3, 1}, ClampedGate{0, 0.5}})
    for (const Size& s : kSizes)
      expect_agreement<T>(
          s, 2, [&](T* y, const T* x) { cuda::clamped_forward(y, x, s.rows, s.cols, of, nullptr); },
          [&](T* dx, const T* dy, const T* x) {
            cuda::clamped_backward(dx, dy, x, s.rows, s.cols, of, nullptr);
          },
          [&](double* y, const double* x) { cpu::clamped_forward(y, x, s.rows, s.cols, of); },
          [&](double* dx, const double* dy, const double* x) {
            cpu::clamped_backward(dx, dy, x, s.rows, s.cols, of);
          });
}

TYPED_TEST(ActivationCuda, Swiglu) {
  using T = TypeParam;
  for (const Size& s : kSizes)
    expect_agreement<T>(
        s, 2, [&](T* y, const T* x) { cuda::swiglu_forward(y, x, s.rows, s.cols, nullptr); },
        [&](T* dx, const T* dy, const T* x) {
          cuda::swiglu_backward(dx, dy, x, s.rows, s.cols, nullptr);
        },
        [&](double* y, const double* x) { cpu::swiglu_forward(y, x, s.rows, s.cols); },
        [&](double* dx, const double* dy, const double* x) {
          cpu::swiglu_backward(dx, dy, x, s.rows, s.cols);
        });
}

TYPED_TEST(ActivationCuda, Geglu) {
  using T = TypeParam;
  for (const Size& s : kSizes)
    expect_agreement<T>(
        s, 2, [&](T* y, const T* x) { cuda::geglu_forward(y, x, s.rows, s.cols, nullptr); },
        [&](T* dx, const T* dy, const T* x) {
          cuda::geglu_backward(dx, dy, x, s.rows, s.cols, nullptr);
        },
        [&](double* y, const double* x) { cpu::geglu_forward(y, x, s.rows, s.cols); },
        [&](double* dx, const double* dy, const double* x) {
          cpu::geglu_backward(dx, dy, x, s.rows, s.cols);
        });
}

// Far from 0 nothing overflows on the way to a finite result.
TYPED_TEST(ActivationCuda, LargeInputs) {
  using T = TypeParam;
  const std::vector<double> x{-30000, -100, -20, 20, 100, 30000}, ones(x.size(), 1);
  const Numbers<T> device_x(x, 0), device_ones(ones, 0), y(6), dx(6);
  const std::vector<double> rounded = device_x.values();
  std::vector<double> expected(6);
  for (const GeluForm form : {GeluForm::tanh, GeluForm::erf}) {
    cuda::gelu_forward<T>(y.data(), device_x.data(), 6, form, nullptr);
    cpu::gelu_forward(expected.data(), rounded.data(), 6, form);
    EXPECT_TRUE(near(y, expected));
    cuda::gelu_backward<T>(dx.data(), device_ones.data(), device_x.data(), 6, form, nullptr);
    cpu::gelu_backward(expected.data(), ones.data(), rounded.data(), 6, form);
    EXPECT_TRUE(near(dx, expected));
  }
}

}  // namespace
}  // namespace mt
