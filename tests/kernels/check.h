// What the kernels' tests share: random arrays, comparisons that name the first bad element, and
// directional derivatives.
#pragma once

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/threads.h"

namespace mt::check {

template <class T>
std::vector<T> random(std::int64_t count, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& value : x) value = static_cast<T>(uniform(engine));
  return x;
}

template <class To, class From>
std::vector<To> convert(const std::vector<From>& x) {
  return std::vector<To>(x.begin(), x.end());
}

// How far a kernel in T may be from the reference in double: for sums of some thousand terms
// near 1.
template <class T>
constexpr double kTolerance = sizeof(T) == sizeof(float) ? 2e-6 : 1e-13;

// |got - expected| <= tolerance (1 + |expected|) everywhere.
template <class T>
testing::AssertionResult near(const std::vector<T>& got, const std::vector<double>& expected,
                              double tolerance = kTolerance<T>) {
  if (got.size() != expected.size())
    return testing::AssertionFailure() << got.size() << " elements, expected " << expected.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i]))))
      return testing::AssertionFailure()
             << "element " << i << " of " << got.size() << ": " << got[i] << ", expected "
             << expected[i] << ", tolerance " << tolerance;
  return testing::AssertionSuccess();
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// compute() on 1, 2 and 7 threads gives the same bits.
template <class Compute>
void expect_same_on_any_threads(const Compute& compute) {
  // oneTBB starts as many threads as the machine has cores unless told that more are welcome.
  const tbb::global_control seven(tbb::global_control::max_allowed_parallelism, 7);
  decltype(compute()) one;
  Workers(1).run([&] { one = compute(); });
  for (const int threads : {2, 7}) {
    decltype(compute()) many;
    Workers(threads).run([&] { many = compute(); });
    EXPECT_TRUE(same_bits(one, many)) << threads << " threads";
  }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// d/dt f(x + t v) at t = 0, from four points: the error is of order h^4.
inline double derivative(const std::function<double(const std::vector<double>&)>& f,
                         const std::vector<double>& x, const std::vector<double>& v) {
  constexpr double kStep = 1e-3;
  const auto at = [&](double t) {
    std::vector<double> moved = x;
    for (std::size_t i = 0; i < x.size(); ++i) moved[i] += t * v[i];
    return f(moved);
  };
  return (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
}

// The gradient of f at x agrees with its directional derivative to 1e-8.
inline void expect_gradient(const std::vector<double>& gradient,
                            const std::function<double(const std::vector<double>&)>& f,
                            const std::vector<double>& x, unsigned seed) {
  const auto v = random<double>(std::ssize(x), seed);
  const double expected = derivative(f, x, v);
  EXPECT_NEAR(dot(gradient, v), expected, 1e-8 * (1 + std::abs(expected)));
}

}  // namespace mt::check
