// Tensors of host memory for tests: owners, contents, and comparisons that name the tensor, the
// first bad index, both values and the worst error.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tensor/param.h"

namespace mt {

// A tensor with memory of its own, zeros at first.
class HostTensor {
 public:
  HostTensor(DType dtype, const Shape& shape)
      : buffer_(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)),
        view_(buffer_.tensor(dtype, shape)) {}
  // Of integers: numbers as they are.
  HostTensor(const Shape& shape, const std::vector<std::int32_t>& values)
      : HostTensor(DType::i32, shape) {
    std::ranges::copy(values, view_.as<std::int32_t>());
  }
  operator Tensor() const { return view_; }
  Tensor view() const { return view_; }
  template <class T>
  std::span<T> span() const {
    return view_.span<T>();
  }

 private:
  Buffer buffer_;
  Tensor view_;
};

// Element `index` of a tensor of floating point.
inline double element(const ConstTensor& tensor, std::int64_t index) {
  return with_float_type(tensor.dtype(),
                         [&]<class T>() { return static_cast<double>(tensor.as<T>()[index]); });
}

inline void fill_with(Tensor tensor, const std::function<double(std::int64_t)>& value) {
  with_float_type(tensor.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.as<T>()[i] = static_cast<T>(value(i));
  });
}

// Uniform in [low, high), the same for the same seed.
inline void fill_uniform(Tensor tensor, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  fill_with(tensor, [&](std::int64_t) { return uniform(engine); });
}

inline HostTensor random_tensor(DType dtype, const Shape& shape, unsigned seed, double low = -1,
                                double high = 1) {
  HostTensor tensor(dtype, shape);
  fill_uniform(tensor, seed, low, high);
  return tensor;
}

inline HostTensor clone(const ConstTensor& tensor) {
  HostTensor copy(tensor.dtype(), tensor.shape());
  if (tensor.numel() > 0) std::memcpy(copy.view().data(), tensor.data(), tensor.bytes());
  return copy;
}

inline double dot_of(const ConstTensor& a, const ConstTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += element(a, i) * element(b, i);
  return sum;
}

inline double largest(const ConstTensor& tensor) {
  double top = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    top = std::max(top, std::abs(element(tensor, i)));
  return top;
}

// The largest |got - expected| in units of expected's largest element.
inline double worst_error(const ConstTensor& got, const ConstTensor& expected) {
  double worst = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double error = std::abs(element(got, i) - element(expected, i));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst == 0 ? 0 : worst / largest(expected);
}

inline testing::AssertionResult tensors_near(const char* got_name, const char* expected_name,
                                             const char*, const ConstTensor& got,
                                             const ConstTensor& expected, double tolerance) {
  if (!(got.shape() == expected.shape()))
    return testing::AssertionFailure() << got_name << " is " << got.shape() << ", " << expected_name
                                       << " is " << expected.shape();
  const double bound = tolerance * largest(expected);
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    if (!(std::abs(element(got, i) - element(expected, i)) <= bound))
      return testing::AssertionFailure()
             << std::setprecision(17) << got_name << "[" << i << "] of " << got.shape() << " is "
             << element(got, i) << ", " << expected_name << " is " << element(expected, i)
             << "; worst error " << worst_error(got, expected)
             << " of the largest element, allowed " << tolerance;
  return testing::AssertionSuccess();
}

inline testing::AssertionResult same_bits(const char* got_name, const char* expected_name,
                                          const ConstTensor& got, const ConstTensor& expected) {
  if (!(got.shape() == expected.shape()) || got.dtype() != expected.dtype())
    return testing::AssertionFailure() << got_name << " is " << got.shape() << ", " << expected_name
                                       << " is " << expected.shape();
  const std::size_t size = size_of(got.dtype());
  const auto* a = static_cast<const std::byte*>(got.data());
  const auto* b = static_cast<const std::byte*>(expected.data());
  for (std::int64_t i = 0; i < got.numel(); ++i, a += size, b += size)
    if (std::memcmp(a, b, size) != 0)
      return testing::AssertionFailure()
             << got_name << " and " << expected_name << " differ at " << i << " of " << got.shape();
  return testing::AssertionSuccess();
}

// Every |got - expected| is at most `tolerance` times the largest |expected|.
#define EXPECT_TENSORS_NEAR(got, expected, tolerance) \
  EXPECT_PRED_FORMAT3(::mt::tensors_near, got, expected, tolerance)
#define EXPECT_SAME_BITS(got, expected) EXPECT_PRED_FORMAT2(::mt::same_bits, got, expected)

// The flat tensors of a table whose rows are all of one kind.
inline Tensor values_of(const ParamTable& table) {
  EXPECT_EQ(table.flat_rows().size(), 1U);
  return table.flat_rows().front().values;
}
inline Tensor gradients_of(const ParamTable& table) {
  EXPECT_EQ(table.flat_rows().size(), 1U);
  return table.flat_rows().front().gradients;
}

}  // namespace mt
