#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;
constexpr double kEps = 1e-5;

template <class T>
struct LayerNorm {
  std::vector<T> y, mean, rstd;
};

template <class T>
LayerNorm<T> layer_norm(const std::vector<T>& x, const std::vector<T>& w, const std::vector<T>& b,
                        std::int64_t rows, std::int64_t cols) {
  LayerNorm<T> out{std::vector<T>(x.size()), std::vector<T>(rows), std::vector<T>(rows)};
  cpu::layer_norm_forward(out.y.data(), out.mean.data(), out.rstd.data(), x.data(), w.data(),
                          b.data(), rows, cols, kEps);
  return out;
}

template <class T>
struct Gradient {
  std::vector<T> dx, dw, db;
};

template <class T>
Gradient<T> layer_norm_gradient(const std::vector<T>& dy, const std::vector<T>& x,
                                const std::vector<T>& w, std::int64_t rows, std::int64_t cols) {
  const auto saved = layer_norm(x, w, w, rows, cols);
  Gradient<T> g{std::vector<T>(x.size()), std::vector<T>(cols), std::vector<T>(cols)};
  cpu::layer_norm_backward(g.dx.data(), g.dw.data(), g.db.data(), dy.data(), x.data(),
                           saved.mean.data(), saved.rstd.data(), w.data(), rows, cols);
  return g;
}

template <class T>
std::vector<T> rms_norm(const std::vector<T>& x, const std::vector<T>& w, std::vector<T>& rstd,
                        std::int64_t rows, std::int64_t cols) {
  std::vector<T> y(x.size());
  rstd.resize(rows);
  cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), rows, cols, kEps);
  return y;
}

template <class T>
Gradient<T> rms_norm_gradient(const std::vector<T>& dy, const std::vector<T>& x,
                              const std::vector<T>& w, std::int64_t rows, std::int64_t cols) {
  std::vector<T> rstd;
  rms_norm(x, w, rstd, rows, cols);
  Gradient<T> g{std::vector<T>(x.size()), std::vector<T>(cols), {}};
  cpu::rms_norm_backward(g.dx.data(), g.dw.data(), dy.data(), x.data(), rstd.data(), w.data(), rows,
                         cols);
  return g;
}

template <class T>
class NormTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NormTest, Types);

TYPED_TEST(NormTest, LayerNormForward) {
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {1, 31, 33, 768}) {
      const auto x = random<TypeParam>(rows * cols, 1, -1, 3), w = random<TypeParam>(cols, 2),
                 b = random<TypeParam>(cols, 3);
      const auto got = layer_norm(x, w, b, rows, cols);
      std::vector<double> y(x.size()), mean(rows), rstd(rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        double total = 0, squares = 0;
        for (std::int64_t c = 0; c < cols; ++c) total += x[r * cols + c];
        mean[r] = total / double(cols);
        for (std::int64_t c = 0; c < cols; ++c) squares += std::pow(x[r * cols + c] - mean[r], 2);
        rstd[r] = 1 / std::sqrt(squares / double(cols) + kEps);
        for (std::int64_t c = 0; c < cols; ++c)
          y[r * cols + c] = (x[r * cols + c] - mean[r]) * rstd[r] * w[c] + b[c];
      }
      EXPECT_TRUE(check::near(got.y, y)) << rows << " x " << cols;
      EXPECT_TRUE(check::near(got.mean, mean)) << rows << " x " << cols;
      EXPECT_TRUE(check::near(got.rstd, rstd)) << rows << " x " << cols;
    }
}

TYPED_TEST(NormTest, RmsNormForward) {
  for (const std::int64_t rows : {0, 1, 31, 33})
    for (const std::int64_t cols : {1, 31, 33, 768}) {
      const auto x = random<TypeParam>(rows * cols, 1, -1, 3), w = random<TypeParam>(cols, 2);
      std::vector<TypeParam> got_rstd;
      const auto got = rms_norm(x, w, got_rstd, rows, cols);
      std::vector<double> y(x.size()), rstd(rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::int64_t c = 0; c < cols; ++c) squares += std::pow(x[r * cols + c], 2);
        rstd[r] = 1 / std::sqrt(squares / double(cols) + kEps);
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * rstd[r] * w[c];
      }
      EXPECT_TRUE(check::near(got, y)) << rows << " x " << cols;
      EXPECT_TRUE(check::near(got_rstd, rstd)) << rows << " x " << cols;
    }
}

// float against double, on enough rows for several blocks of partial sums.
TEST(Norm, FloatBackwardFollowsDouble) {
  for (const std::int64_t cols : {1, 31, 33, 257}) {
    constexpr std::int64_t kRows = 200;
    const auto x = random<float>(kRows * cols, 1), w = random<float>(cols, 2),
               dy = random<float>(kRows * cols, 3);
    const auto xd = check::convert<double>(x), wd = check::convert<double>(w),
               dyd = check::convert<double>(dy);
    // A single column has rstd = 1 / sqrt(eps), which multiplies rounding errors.
    const double tolerance = cols == 1 ? 1e-3 : 2e-5;
    const auto layer = layer_norm_gradient(dy, x, w, kRows, cols);
    const auto layer_d = layer_norm_gradient(dyd, xd, wd, kRows, cols);
    EXPECT_TRUE(check::near(layer.dx, layer_d.dx, tolerance)) << cols;
    EXPECT_TRUE(check::near(layer.dw, layer_d.dw, tolerance)) << cols;
    EXPECT_TRUE(check::near(layer.db, layer_d.db, tolerance)) << cols;
    const auto rms = rms_norm_gradient(dy, x, w, kRows, cols);
    const auto rms_d = rms_norm_gradient(dyd, xd, wd, kRows, cols);
    EXPECT_TRUE(check::near(rms.dx, rms_d.dx, tolerance)) << cols;
    EXPECT_TRUE(check::near(rms.dw, rms_d.dw, tolerance)) << cols;
  }
}

TEST(Norm, LayerNormDerivatives) {
  constexpr std::int64_t kRows = 700, kCols = 33;  // two blocks of rows
  const auto x = random<double>(kRows * kCols, 1), w = random<double>(kCols, 2),
             b = random<double>(kCols, 3), dy = random<double>(kRows * kCols, 4);
  const auto g = layer_norm_gradient(dy, x, w, kRows, kCols);
  const auto f = [&](const auto& at_x, const auto& at_w, const auto& at_b) {
    return check::dot(dy, layer_norm(at_x, at_w, at_b, kRows, kCols).y);
  };
  check::expect_gradient(
      g.dx, [&](const auto& at) { return f(at, w, b); }, x, 5);
  check::expect_gradient(
      g.dw, [&](const auto& at) { return f(x, at, b); }, w, 6);
  check::expect_gradient(
      g.db, [&](const auto& at) { return f(x, w, at); }, b, 7);
}

TEST(Norm, RmsNormDerivatives) {
  constexpr std::int64_t kRows = 700, kCols = 33;
  const auto x = random<double>(kRows * kCols, 1), w = random<double>(kCols, 2),
             dy = random<double>(kRows * kCols, 4);
  const auto g = rms_norm_gradient(dy, x, w, kRows, kCols);
  std::vector<double> rstd;
  const auto f = [&](const auto& at_x, const auto& at_w) {
    return check::dot(dy, rms_norm(at_x, at_w, rstd, kRows, kCols));
  };
  check::expect_gradient(
      g.dx, [&](const auto& at) { return f(at, w); }, x, 5);
  check::expect_gradient(
      g.dw, [&](const auto& at) { return f(x, at); }, w, 6);
}

TEST(Norm, ParameterGradientsAreAddedTo) {
  const std::vector<double> x = {1, 2, 3, 4}, w = {1, 1}, dy = {1, 0, 0, 1};
  std::vector<double> mean(2), rstd(2), y(4), dx(4), dw = {10, 20}, db = {30, 40}, rms = {50, 60};
  cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), 2, 2,
                          0.0);
  cpu::layer_norm_backward(dx.data(), dw.data(), db.data(), dy.data(), x.data(), mean.data(),
                           rstd.data(), w.data(), 2, 2);
  EXPECT_TRUE(check::near(dw, {9, 21}));  // h is -1 and 1 in either row
  EXPECT_TRUE(check::near(db, {31, 41}));
  cpu::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), 2, 2, 0.0);
  cpu::rms_norm_backward(dx.data(), rms.data(), dy.data(), x.data(), rstd.data(), w.data(), 2, 2);
  EXPECT_TRUE(check::near(rms, {50 + 1 / std::sqrt(2.5), 60 + 4 / std::sqrt(12.5)}));
}

TEST(Norm, SameBitsOnAnyThreads) {
  constexpr std::int64_t kRows = 1000, kCols = 100;
  const auto x = random<float>(kRows * kCols, 1), w = random<float>(kCols, 2),
             dy = random<float>(kRows * kCols, 3);
  check::expect_same_on_any_threads([&] { return layer_norm(x, w, w, kRows, kCols).y; });
  check::expect_same_on_any_threads([&] { return layer_norm_gradient(dy, x, w, kRows, kCols).dx; });
  check::expect_same_on_any_threads([&] { return layer_norm_gradient(dy, x, w, kRows, kCols).dw; });
  check::expect_same_on_any_threads([&] { return rms_norm_gradient(dy, x, w, kRows, kCols).dw; });
}

}  // namespace
}  // namespace mt
