// LayerNorm and RMSNorm on the GPU against the CPU's in double.
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;
using check::Input;
using check::Numbers;

template <class T>
class NormCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(NormCuda, check::ElementTypes);

struct Size {
  std::int64_t rows, cols, offset;
};
// Rows of a part of a warp, of a warp, of several, and too long for registers; odd and unaligned.
constexpr Size kSizes[] = {
    {0, 16, 0},     {1, 1, 0},    {1, 31, 0},     {3, 33, 0},    {5, 8, 0},     {300, 64, 0},
    {33, 128, 0},   {9, 264, 0},  {1031, 128, 0}, {530, 768, 0}, {31, 768, 1},  {140, 2048, 0},
    {270, 4096, 0}, {5, 8192, 0}, {3, 16384, 0},  {2, 33000, 0}, {3, 40000, 0}, {7, 1001, 0},
    {37, 1600, 0},  {9, 512, 0},  {2, 10000, 0},  {2, 20000, 0}, {21, 200, 0},  {19, 1000, 0},
    {11, 1288, 0},  {15, 1208, 0}};
constexpr double kEps = 1e-5;
constexpr double kSums = 2e-5;  // of f32 sums over the rows

template <class T>
struct Problem {
  explicit Problem(const Size& size)
      : s(size),
        x(s.rows * s.cols, 1, s.offset, -1, 3),
        dy(s.rows * s.cols, 2, s.offset),
        w(s.cols, 3, s.offset),
        b(s.cols, 4, s.offset),
        old_dw(s.cols, 5),
        old_db(s.cols, 6),
        y(s.rows * s.cols, s.offset),
        dx(s.rows * s.cols, s.offset),
        mean(s.rows),
        rstd(s.rows),
        dw(old_dw.host, 0),
        db(old_db.host, 0),
        work(std::max(cuda::layer_norm_backward_work(s.rows, s.cols),
                      cuda::rms_norm_backward_work(s.rows, s.cols))) {}

  void layer_norm_forward() const {
    cuda::layer_norm_forward(y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
                             s.rows, s.cols, kEps, nullptr);
  }
  void layer_norm_backward(const T* add = nullptr) {
    cuda::layer_norm_backward(dx.data(), dw.data(), db.data(), add, dy.data(), x.data(),
                              mean.data(), rstd.data(), w.data(), s.rows, s.cols, work.data(),
                              nullptr);
  }
  void rms_norm_forward() const {
    cuda::rms_norm_forward(y.data(), rstd.data(), x.data(), w.data(), s.rows, s.cols, kEps,
                           nullptr);
  }
  void rms_norm_backward(const T* add = nullptr) {
    cuda::rms_norm_backward(dx.data(), dw.data(), add, dy.data(), x.data(), rstd.data(), w.data(),
                            s.rows, s.cols, work.data(), nullptr);
  }
  void zero_gradients() {
    check::check_cuda(cudaMemset(dw.data(), 0, s.cols * sizeof(float)));
    check::check_cuda(cudaMemset(db.data(), 0, s.cols * sizeof(float)));
  }

  const Size s;
  Input<T> x, dy, w, b;
  Input<float> old_dw, old_db;  // gradients are added to these
  Numbers<T> y, dx;
  Numbers<float> mean, rstd, dw, db;
  DeviceArray<unsigned char> work;
};

TYPED_TEST(NormCuda, LayerNormAgreesWithTheCpu) {
  for (const Size& s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << " at " << s.offset);
    Problem<TypeParam> p(s);
    p.layer_norm_forward();
    p.layer_norm_backward();
    std::vector<double> y(s.rows * s.cols), mean(s.rows), rstd(s.rows), dx(s.rows * s.cols);
    std::vector<double> dw = p.old_dw.host, db = p.old_db.host;
    cpu::layer_norm_forward(y.data(), mean.data(), rstd.data(), p.x.host.data(), p.w.host.data(),
                            p.b.host.data(), s.rows, s.cols, kEps);
    cpu::layer_norm_backward(dx.data(), dw.data(), db.data(), p.dy.host.data(), p.x.host.data(),
                             mean.data(), rstd.data(), p.w.host.data(), s.rows, s.cols);
    // One column: x is its own mean, and rstd = 1 / sqrt(eps) multiplies the rounding of 0.
    if (s.cols > 1) {
      EXPECT_TRUE(near(p.y, y));
      EXPECT_TRUE(near(p.dx, dx));
    }
    EXPECT_TRUE(near(p.mean, mean));
    EXPECT_TRUE(near(p.rstd, rstd));
    EXPECT_TRUE(near(p.dw, dw, kSums));
    EXPECT_TRUE(near(p.db, db, kSums));
  }
}

TYPED_TEST(NormCuda, RmsNormAgreesWithTheCpu) {
  for (const Size& s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << " at " << s.offset);
    Problem<TypeParam> p(s);
    p.rms_norm_forward();
    p.rms_norm_backward();
    std::vector<double> y(s.rows * s.cols), rstd(s.rows), dx(s.rows * s.cols);
    std::vector<double> dw = p.old_dw.host;
    cpu::rms_norm_forward(y.data(), rstd.data(), p.x.host.data(), p.w.host.data(), s.rows, s.cols,
                          kEps);
    cpu::rms_norm_backward(dx.data(), dw.data(), p.dy.host.data(), p.x.host.data(), rstd.data(),
                           p.w.host.data(), s.rows, s.cols);
    EXPECT_TRUE(near(p.y, y));
    EXPECT_TRUE(near(p.rstd, rstd));
    EXPECT_TRUE(near(p.dx, dx));
    EXPECT_TRUE(near(p.dw, dw, kSums));
  }
}

TYPED_TEST(NormCuda, BackwardAddsToWhatWentPastTheNorm) {
  using T = TypeParam;
  for (const Size& s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << " at " << s.offset);
    Problem<T> p(s);
    const Input<T> add(s.rows * s.cols, 7, s.offset);
    const auto expect_sum = [&] {
      std::vector<double> expected = p.dx.values();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += add.host[i];
      return expected;
    };
    p.layer_norm_forward();
    p.layer_norm_backward();
    std::vector<double> expected = expect_sum();
    p.layer_norm_backward(add.data());
    EXPECT_TRUE(near(p.dx, expected, 2 * check::kRounding<T>));
    p.rms_norm_forward();
    p.rms_norm_backward();
    expected = expect_sum();
    p.rms_norm_backward(add.data());
    EXPECT_TRUE(near(p.dx, expected, 2 * check::kRounding<T>));
  }
}

class NormInBf16 : public check::CudaTest<float> {};

TEST_F(NormInBf16, RoundsWhatItAdds) {
  for (const Size& s : kSizes) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << " at " << s.offset);
    const Problem<check::bf16> p(s);
    p.layer_norm_forward();
    check::expect_one_rounding(2 * s.cols, [&](auto* dw) {
      cuda::layer_norm_backward(p.dx.data(), dw, dw + s.cols, p.x.data(), p.dy.data(), p.x.data(),
                                p.mean.data(), p.rstd.data(), p.w.data(), s.rows, s.cols,
                                p.work.data(), nullptr);
    });
    p.rms_norm_forward();
    check::expect_one_rounding(s.cols, [&](auto* dw) {
      cuda::rms_norm_backward(p.dx.data(), dw, p.x.data(), p.dy.data(), p.x.data(), p.rstd.data(),
                              p.w.data(), s.rows, s.cols, p.work.data(), nullptr);
    });
  }
}

TYPED_TEST(NormCuda, BackwardGivesTheSameBitsAThousandTimes) {
  for (const std::int64_t cols : {64, 768, 1001}) {
    Problem<TypeParam> p({600, cols, 0});
    p.layer_norm_forward();
    const auto layer_norm = [&] {
      p.zero_gradients();
      p.layer_norm_backward();
    };
    expect_same_bits(p.dw, 1000, layer_norm);
    expect_same_bits(p.db, 10, layer_norm);
    expect_same_bits(p.dx, 10, layer_norm);
    expect_same_bits(p.dw, 1000, [&] {
      p.zero_gradients();
      p.rms_norm_backward();
    });
  }
}

}  // namespace
}  // namespace mt
