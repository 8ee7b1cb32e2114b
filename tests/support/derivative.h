// Derivatives by differences, to compare gradients with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/host_tensor.h"

namespace mt {

// f'(0) from six points: the formula's error is h^6 / 140 times the seventh derivative, rounding
// adds some 1e-12 of f.
inline double derivative(const std::function<double(double)>& f) {
  constexpr double h = 5e-4;
  const auto difference = [&](double step) { return f(step) - f(-step); };
  return (45 * difference(h) - 9 * difference(2 * h) + difference(3 * h)) / (60 * h);
}

// f reads `at` (f64).  <gradient, u> equals the derivative of f along a random direction u to 1e-8
// relative.
inline void expect_gradient(const ConstTensor& gradient, Tensor at,
                            const std::function<double()>& f, unsigned seed,
                            const std::string& what) {
  const HostTensor u = random_tensor(DType::f64, at.shape(), seed), start = clone(at);
  const double expected = derivative([&](double t) {
    fill_with(at, [&](std::int64_t i) { return element(start, i) + t * element(u, i); });
    return f();
  });
  fill_with(at, [&](std::int64_t i) { return element(start, i); });
  const double got = dot_of(gradient, u);
  EXPECT_NEAR(got, expected, 1e-8 * std::abs(expected))
      << what << ": relative error " << std::abs(got - expected) / std::abs(expected);
  EXPECT_NE(expected, 0) << what;
}

}  // namespace mt
