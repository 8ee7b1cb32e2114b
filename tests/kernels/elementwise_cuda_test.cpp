// Element-wise operations and sums on the GPU against the CPU's in double.
#include "kernels/elementwise.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class ElementwiseCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(ElementwiseCuda, check::ElementTypes);

struct Size {
  std::int64_t count, offset;
};
constexpr Size kSizes[] = {{0, 0},    {1, 0},    {31, 0},     {33, 1},
                           {4096, 0}, {4099, 0}, {100000, 1}, {3000003, 0}};

TYPED_TEST(ElementwiseCuda, AddScaleClampFill) {
  using T = TypeParam;
  for (const auto& [n, offset] : kSizes) {
    SCOPED_TRACE(testing::Message() << n << " at " << offset);
    const Input<T> a(n, 1, offset), b(n, 2, offset);
    const Numbers<T> y(n, offset);
    std::vector<double> expected(n);
    cuda::add(y.data(), a.data(), b.data(), n, nullptr);
    cpu::add(expected.data(), a.host.data(), b.host.data(), n);
    EXPECT_TRUE(near(y, expected));
    cuda::add(y.data(), y.data(), b.data(), n, nullptr);  // in place, from the rounded sum
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] =
          static_cast<double>(static_cast<float>(T(static_cast<float>(expected[i])))) + b.host[i];
    EXPECT_TRUE(near(y, expected, 2 * check::kRounding<T>));
    cuda::scale(y.data(), a.data(), 0.25f, n, nullptr);
    cpu::scale(expected.data(), a.host.data(), 0.25, n);
    EXPECT_TRUE(near(y, expected));
    cuda::clamp_forward(y.data(), a.data(), 0.25f, n, nullptr);
    cpu::clamp_forward(expected.data(), a.host.data(), 0.25, n);
    EXPECT_TRUE(near(y, expected, 0));
    cuda::clamp_backward(y.data(), b.data(), a.data(), 0.25f, n, nullptr);
    cpu::clamp_backward(expected.data(), b.host.data(), a.host.data(), 0.25, n);
    EXPECT_TRUE(near(y, expected, 0));
    cuda::fill(y.data(), 1.5, n, nullptr);
    EXPECT_TRUE(near(y, std::vector<double>(n, 1.5), 0));
  }
}

TYPED_TEST(ElementwiseCuda, SwapAxes) {
  using T = TypeParam;
  struct Axes {
    std::int64_t a, b, run, offset;
  };
  for (const auto& [a, b, run, offset] : {Axes{0, 3, 8, 0}, Axes{1, 5, 16, 0}, Axes{33, 2, 64, 0},
                                          Axes{7, 4, 31, 0}, Axes{2, 1000, 24, 1}}) {
    SCOPED_TRACE(testing::Message() << a << " by " << b << " by " << run);
    const Input<T> x(a * b * run, 1, offset);
    const Numbers<T> y(a * b * run, offset);
    cuda::swap_axes(y.data(), x.data(), a, b, run * static_cast<std::int64_t>(sizeof(T)), nullptr);
    std::vector<double> expected;
    for (std::int64_t j = 0; j < b; ++j)
      for (std::int64_t i = 0; i < a; ++i) {
        const auto from = x.host.begin() + (i * b + j) * run;
        expected.insert(expected.end(), from, from + run);
      }
    EXPECT_TRUE(near(y, expected, 0));
  }
}

TYPED_TEST(ElementwiseCuda, Convert) {
  using T = TypeParam;
  if constexpr (!std::is_same_v<T, float>)
    for (const auto& [n, offset] : kSizes) {
      SCOPED_TRACE(testing::Message() << n << " at " << offset);
      const Input<float> x(n, 1, offset);
      const Numbers<T> narrow(n, offset), expected(x.host, 0);
      const Numbers<float> wide(n, offset);
      cuda::convert(narrow.data(), x.data(), n, nullptr);
      EXPECT_TRUE(near(narrow, expected.values(), 0));
      cuda::convert(wide.data(), static_cast<const T*>(narrow.data()), n, nullptr);
      EXPECT_TRUE(near(wide, expected.values(), 0));
    }
}

TYPED_TEST(ElementwiseCuda, ColumnSumAddsUp) {
  using T = TypeParam;
  struct Shape {
    std::int64_t rows, cols, offset;
  };
  for (const auto& [rows, cols, offset] :
       {Shape{0, 5, 0}, Shape{1, 1, 0}, Shape{31, 33, 0}, Shape{33, 264, 1}, Shape{1000, 8, 0},
        Shape{65, 2048, 0}, Shape{9000, 96, 0}, Shape{20000, 257, 0}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols << " at " << offset);
    const Input<T> x(rows * cols, 1, offset);
    const Input<float> old(cols, 2);
    const Numbers<float> y(old.host, 0);
    const DeviceArray<unsigned char> work(cuda::column_sum_work(rows, cols));
    cuda::column_sum(y.data(), x.data(), rows, cols, work.data(), nullptr);
    std::vector<double> expected = old.host;
    cpu::column_sum(expected.data(), x.host.data(), rows, cols);
    EXPECT_TRUE(near(y, expected, 1e-4));
    expect_same_bits(y, 20, [&] {
      check::check_cuda(cudaMemset(y.data(), 0, cols * sizeof(float)));
      cuda::column_sum(y.data(), x.data(), rows, cols, work.data(), nullptr);
    });
  }
}

class SumsInBf16 : public check::CudaTest<float> {};

TEST_F(SumsInBf16, OfColumns) {
  for (const std::int64_t cols : {1, 33, 264, 2048}) {
    const Input<check::bf16> x(700 * cols, 1);
    const DeviceArray<unsigned char> work(cuda::column_sum_work(700, cols));
    check::expect_one_rounding(
        cols, [&](auto* y) { cuda::column_sum(y, x.data(), 700, cols, work.data(), nullptr); });
  }
}

template <class T>
T only(const DeviceArray<T>& x) {
  check::check_cuda(cudaDeviceSynchronize());
  return x.values()[0];
}

TYPED_TEST(ElementwiseCuda, Sums) {
  using T = TypeParam;
  for (const auto& [n, offset] : kSizes) {
    SCOPED_TRACE(testing::Message() << n << " at " << offset);
    std::vector<double> values = check::random<double>(n, 1);
    for (std::size_t i = 0; i < values.size(); i += 7) values[i] = 0;
    const Numbers<T> x(values, offset);
    const std::vector<double> rounded = x.values();
    const DeviceArray<unsigned char> work(cuda::sum_work(n));
    const DeviceArray<double> sum(1);
    const DeviceArray<std::int32_t> finite(1);
    cuda::sum_squares<T>(sum.data(), x.data(), n, work.data(), nullptr);
    const double expected = cpu::sum_squares(rounded.data(), n), got = only(sum);
    EXPECT_NEAR(got, expected, 1e-12 * expected);
    for (int i = 0; i < 20; ++i) {
      cuda::sum_squares<T>(sum.data(), x.data(), n, work.data(), nullptr);
      EXPECT_EQ(only(sum), got);
    }
    cuda::count_zeros<T>(sum.data(), x.data(), n, work.data(), nullptr);
    EXPECT_EQ(only(sum), std::ranges::count(rounded, 0.0));
    cuda::all_finite<T>(finite.data(), x.data(), n, work.data(), nullptr);
    EXPECT_EQ(only(finite), 1);
    if (n == 0) continue;
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<double> with_bad = rounded;
      with_bad[n / 2] = bad;
      const Numbers<T> y(with_bad, offset);
      cuda::all_finite<T>(finite.data(), y.data(), n, work.data(), nullptr);
      EXPECT_EQ(only(finite), 0);
    }
  }
}

class DigestCuda : public check::CudaTest<float> {};

TEST_F(DigestCuda, TellsBitsAndTheirPlacesApart) {
  for (const auto& [n, offset] : kSizes) {
    SCOPED_TRACE(testing::Message() << n << " at " << offset);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(n + offset));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i / 2);
    const DeviceArray<std::uint64_t> digest(1);
    const auto digest_of = [&](const std::vector<std::uint16_t>& x) {
      const DeviceArray<std::uint16_t> memory(x);
      cuda::digest(digest.data(), memory.data() + offset, n, nullptr);
      return only(digest);
    };
    const std::uint64_t expected = digest_of(values);
    EXPECT_EQ(digest_of(values), expected);
    if (n == 0) continue;
    std::vector<std::uint16_t> changed = values;
    changed.back() ^= 0x8000;
    EXPECT_NE(digest_of(changed), expected);
    changed = values;
    std::swap(changed[static_cast<std::size_t>(offset)], changed.back());
    EXPECT_EQ(digest_of(changed) == expected, changed == values);
  }
}

class DotCuda : public check::CudaTest<float> {};

TEST_F(DotCuda, AgreesWithTheCpu) {
  for (const auto& [n, offset] : kSizes) {
    const Input<float> a(n, 1, offset), b(n, 2, offset);
    const DeviceArray<unsigned char> work(cuda::sum_work(n));
    const DeviceArray<double> sum(1);
    cuda::dot(sum.data(), a.data(), b.data(), n, work.data(), nullptr);
    EXPECT_NEAR(only(sum), cpu::dot(a.host.data(), b.host.data(), n), 1e-12 * double(n));
  }
}

}  // namespace
}  // namespace mt
