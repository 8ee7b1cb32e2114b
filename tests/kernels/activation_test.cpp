#include "kernels/activation.h"

#include <numbers>

#include "kernels/simd.h"
#include "kernels/xielu.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;
constexpr GeluForm kForms[] = {GeluForm::tanh, GeluForm::erf, GeluForm::quick};

template <class T>
std::vector<T> gelu(const std::vector<T>& x, GeluForm form) {
  std::vector<T> y(x.size());
  cpu::gelu_forward(y.data(), x.data(), std::ssize(x), form);
  return y;
}

template <class T>
std::vector<T> gelu_gradient(const std::vector<T>& dy, const std::vector<T>& x, GeluForm form) {
  std::vector<T> dx(x.size());
  cpu::gelu_backward(dx.data(), dy.data(), x.data(), std::ssize(x), form);
  return dx;
}

template <class T>
std::vector<T> swiglu(const std::vector<T>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<T> y(x.size() / 2);
  cpu::swiglu_forward(y.data(), x.data(), rows, cols);
  return y;
}

template <class T>
std::vector<T> swiglu_gradient(const std::vector<T>& dy, const std::vector<T>& x, std::int64_t rows,
                               std::int64_t cols) {
  std::vector<T> dx(x.size());
  cpu::swiglu_backward(dx.data(), dy.data(), x.data(), rows, cols);
  return dx;
}

template <class T>
std::vector<T> geglu(const std::vector<T>& x, std::int64_t rows, std::int64_t cols) {
  std::vector<T> y(x.size() / 2);
  cpu::geglu_forward(y.data(), x.data(), rows, cols);
  return y;
}

template <class T>
std::vector<T> geglu_gradient(const std::vector<T>& dy, const std::vector<T>& x, std::int64_t rows,
                              std::int64_t cols) {
  std::vector<T> dx(x.size());
  cpu::geglu_backward(dx.data(), dy.data(), x.data(), rows, cols);
  return dx;
}

double gelu_reference(double x, GeluForm form) {
  if (form == GeluForm::erf) return x / 2 * std::erfc(-x / std::sqrt(2.0));
  if (form == GeluForm::quick) return x / (1 + std::exp(-1.702 * x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Activation, GeluGoldens) {
  EXPECT_NEAR(gelu<double>({1.5}, GeluForm::tanh)[0], 1.3995715770, 1e-10);
  EXPECT_NEAR(gelu<double>({1.5}, GeluForm::erf)[0], 1.3997891981, 1e-10);
  EXPECT_NEAR(gelu<double>({1.5}, GeluForm::quick)[0], 1.3916621985, 1e-10);
  EXPECT_NEAR(gelu<float>({1.5}, GeluForm::tanh)[0], 1.3995715770, 2e-7);
  EXPECT_NEAR(gelu<float>({1.5}, GeluForm::erf)[0], 1.3997891981, 2e-7);
}

TEST(Activation, GeluForward) {
  for (const std::int64_t count : {0, 1, 31, 33, 40000})
    for (const GeluForm form : kForms) {
      const auto x = random<double>(count, 1, -12, 12);
      std::vector<double> expected(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = gelu_reference(x[i], form);
      EXPECT_TRUE(check::near(gelu(x, form), expected)) << count;
      EXPECT_TRUE(check::near(gelu(check::convert<float>(x), form), expected)) << count;
    }
}

TEST(Activation, GeluBackwardFollowsDouble) {
  for (const std::int64_t count : {0, 1, 31, 33, 40000})
    for (const GeluForm form : kForms) {
      const auto x = random<float>(count, 1, -12, 12), dy = random<float>(count, 2);
      EXPECT_TRUE(
          check::near(gelu_gradient(dy, x, form),
                      gelu_gradient(check::convert<double>(dy), check::convert<double>(x), form)))
          << count;
    }
}

TEST(Activation, GeluDerivatives) {
  for (const GeluForm form : kForms) {
    const auto x = random<double>(33, 1, -4, 4), dy = random<double>(33, 2);
    check::expect_gradient(
        gelu_gradient(dy, x, form), [&](const auto& at) { return check::dot(dy, gelu(at, form)); },
        x, 3);
  }
}

template <class T>
void check_relu() {
  auto x = random<T>(20000, 1, -3, 3);
  const auto dy = random<T>(20000, 2);
  x[7] = 0;
  std::vector<T> y(x.size()), dx(x.size());
  cpu::relu_forward(y.data(), x.data(), std::ssize(x));
  cpu::relu_backward(dx.data(), dy.data(), x.data(), std::ssize(x));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0) << x[i];
    ASSERT_EQ(dx[i], x[i] > 0 ? dy[i] : 0) << x[i];
  }
}

TEST(Activation, Relu) {
  check_relu<float>();
  check_relu<double>();
  const float x[] = {-std::numeric_limits<float>::infinity(), std::nanf("")};
  float y[2];
  cpu::relu_forward(y, x, 2);
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
}

template <class T>
void check_squared_relu() {
  const auto x = random<T>(20000, 1, -3, 3), dy = random<T>(20000, 2);
  std::vector<T> y(x.size()), dx(x.size());
  cpu::squared_relu_forward(y.data(), x.data(), std::ssize(x));
  cpu::squared_relu_backward(dx.data(), dy.data(), x.data(), std::ssize(x));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[i], x[i] > 0 ? x[i] * x[i] : 0) << x[i];
    ASSERT_EQ(dx[i], x[i] > 0 ? 2 * x[i] * dy[i] : 0) << x[i];
  }
}

// Slopes of ln 2 and ln 2 + 1/2; between eps and 0 the exponential stays.
TEST(Activation, Xielu) {
  const double zero = 0, beta = 0.5, eps = -0.25, n = beta + std::numbers::ln2;
  const XieluNumbers<double> of{&zero, &zero, &beta, &eps};
  const std::vector<double> x = {2, -1, -0.125, 0}, dy = {1, 2, 4, 8};
  std::vector<double> y(4), dx(4);
  double d_p = 1, d_n = 1;
  cpu::xielu_forward(y.data(), x.data(), of, 4);
  cpu::xielu_backward(dx.data(), &d_p, &d_n, dy.data(), x.data(), of, 4);
  const double far = std::expm1(-1.0), near = std::expm1(eps);
  const std::vector<double> expected = {4 * std::numbers::ln2 + 1, (far + 1) * n - 0.5,
                                        (near + 0.125) * n - 0.0625, near * n};
  const std::vector<double> slopes = {4 * std::numbers::ln2 + 0.5, 2 * (far * n + 0.5),
                                      4 * (0.5 - n), 8 * (0.5 - n)};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(y[i], expected[i], 1e-15) << i;
    EXPECT_NEAR(dx[i], slopes[i], 1e-15) << i;
  }
  EXPECT_NEAR(d_p, 1 + 4 * 0.5, 1e-15);
  EXPECT_NEAR(d_n, 1 + (2 * (far + 1) + 4 * (near + 0.125) + 8 * near) / 2, 1e-15);
  const auto many = check::random<float>(20000, 1), d = check::random<float>(20000, 2);
  const float alpha = 0.25F, b = 0.5F, e = -1e-6F;
  check::expect_same_on_any_threads([&] {
    std::vector<float> made(many.size()), sums(2);
    cpu::xielu_backward(made.data(), sums.data(), sums.data() + 1, d.data(), many.data(),
                        {&alpha, &alpha, &b, &e}, std::ssize(many));
    made.insert(made.end(), sums.begin(), sums.end());
    return made;
  });
}

TEST(Activation, SquaredRelu) {
  check_squared_relu<float>();
  check_squared_relu<double>();
  const float x[] = {-std::numeric_limits<float>::infinity(), std::nanf("")};
  float y[2];
  cpu::squared_relu_forward(y, x, 2);
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
}

TEST(Activation, Tanh) {
  const auto x = random<double>(20000, 1, -3, 3), dy = random<double>(x.size(), 2);
  const auto f = [](const std::vector<double>& at) {
    std::vector<double> y(at.size());
    cpu::tanh_forward(y.data(), at.data(), std::ssize(at));
    return y;
  };
  const std::vector<double> y = f(x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], std::tanh(x[i]), 1e-15);
  std::vector<double> dx(x.size());
  cpu::tanh_backward(dx.data(), dy.data(), y.data(), std::ssize(x));
  check::expect_gradient(
      dx, [&](const auto& at) { return check::dot(dy, f(at)); }, x, 3);
}

// families.md's numbers, of gpt-oss; and none moves whose gate or partner is beyond its bound.
TEST(Activation, Clamped) {
  const ClampedGate of{7, 1};
  const std::vector<double> x{1.5, 9, -3, .2, -.5, 8, -9, 7.5}, dy{1, 1, 1, 1};
  std::vector<double> y(4), dx(8);
  cpu::clamped_forward(y.data(), x.data(), 1, 4, of);
  EXPECT_TRUE(check::near(y, std::vector<double>{.695831, 55.999625, .108428, .934860}, 1e-6));
  cpu::clamped_backward(dx.data(), dy.data(), x.data(), 1, 4, of);
  for (const std::size_t still : {1, 5, 6, 7}) EXPECT_EQ(dx[still], 0) << still;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto sum = [&](double step) {
      std::vector<double> at = x;
      at[i] += step;
      cpu::clamped_forward(y.data(), at.data(), 1, 4, of);
      return y[0] + y[1] + y[2] + y[3];
    };
    EXPECT_NEAR(dx[i], (sum(1e-6) - sum(-1e-6)) / 2e-6, 1e-8) << i;
  }
}

TEST(Activation, Swiglu) {
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {0, 1, 31, 33, 700}) {
      const auto x = random<double>(2 * rows * cols, 1, -9, 9), dy = random<double>(rows * cols, 2);
      std::vector<double> expected;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) {
          const double gate = x[2 * r * cols + c], up = x[2 * r * cols + cols + c];
          expected.push_back(gate / (1 + std::exp(-gate)) * up);
        }
      EXPECT_TRUE(check::near(swiglu(x, rows, cols), expected)) << rows << " x " << cols;
      const auto xf = check::convert<float>(x), dyf = check::convert<float>(dy);
      EXPECT_TRUE(check::near(swiglu(xf, rows, cols), expected)) << rows << " x " << cols;
      EXPECT_TRUE(check::near(swiglu_gradient(dyf, xf, rows, cols),
                              swiglu_gradient(dy, x, rows, cols), 4e-6))
          << rows << " x " << cols;
    }
}

TEST(Activation, SwigluDerivatives) {
  const auto x = random<double>(2 * 5 * 33, 1, -4, 4), dy = random<double>(5 * 33, 2);
  check::expect_gradient(
      swiglu_gradient(dy, x, 5, 33),
      [&](const auto& at) { return check::dot(dy, swiglu(at, 5, 33)); }, x, 3);
}

TEST(Activation, Geglu) {
  for (const std::int64_t rows : {0, 1, 33})
    for (const std::int64_t cols : {0, 1, 31, 33, 700}) {
      const auto x = random<double>(2 * rows * cols, 1, -9, 9), dy = random<double>(rows * cols, 2);
      std::vector<double> expected;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          expected.push_back(gelu_reference(x[2 * r * cols + c], GeluForm::tanh) *
                             x[2 * r * cols + cols + c]);
      EXPECT_TRUE(check::near(geglu(x, rows, cols), expected)) << rows << " x " << cols;
      const auto xf = check::convert<float>(x), dyf = check::convert<float>(dy);
      EXPECT_TRUE(check::near(geglu(xf, rows, cols), expected)) << rows << " x " << cols;
      EXPECT_TRUE(
          check::near(geglu_gradient(dyf, xf, rows, cols), geglu_gradient(dy, x, rows, cols), 4e-6))
          << rows << " x " << cols;
    }
}

TEST(Activation, GegluDerivatives) {
  const auto x = random<double>(2 * 5 * 33, 1, -4, 4), dy = random<double>(5 * 33, 2);
  check::expect_gradient(
      geglu_gradient(dy, x, 5, 33),
      [&](const auto& at) { return check::dot(dy, geglu(at, 5, 33)); }, x, 3);
}

TEST(Activation, ExtremeInputs) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const GeluForm form : kForms) {
    const auto y = gelu<float>({0, -0.0f, 100, -100, 1e30f, inf, std::nanf("")}, form);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[2], 100);
    EXPECT_EQ(y[3], 0);
    EXPECT_EQ(y[4], 1e30f);
    EXPECT_EQ(y[5], inf);
    EXPECT_TRUE(std::isnan(y[6]));
  }
}

TEST(Activation, SameBitsOnAnyThreads) {
  const auto x = random<float>(100000, 1, -6, 6), dy = random<float>(100000, 2);
  check::expect_same_on_any_threads([&] { return gelu(x, GeluForm::tanh); });
  check::expect_same_on_any_threads([&] { return gelu_gradient(dy, x, GeluForm::erf); });
  check::expect_same_on_any_threads([&] { return swiglu(x, 100, 500); });
  check::expect_same_on_any_threads([&] { return geglu(x, 100, 500); });
}

}  // namespace
}  // namespace mt
