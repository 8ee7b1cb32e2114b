#include "kernels/gemm.h"

#include <cblas.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>

#include "kernels/wide_product.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

struct Form {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
};

template <class T>
struct Case {
  std::vector<T> a, b, bias, c;
  Form form;

  explicit Case(const Form& f)
      : a(random<T>(f.m * f.k, 1)),
        b(random<T>(f.k * f.n, 2)),
        bias(random<T>(f.n, 3)),
        c(random<T>(f.m * f.n, 4)),
        form(f) {}

  std::vector<T> run() const {
    std::vector<T> out = c;
    cpu::gemm<T>({.c = out.data(),
                  .a = a.data(),
                  .b = b.data(),
                  .m = form.m,
                  .n = form.n,
                  .k = form.k,
                  .transpose_a = form.transpose_a,
                  .transpose_b = form.transpose_b,
                  .accumulate = form.accumulate,
                  .bias = form.bias ? bias.data() : nullptr});
    return out;
  }

  std::vector<double> reference() const {
    const auto& [m, n, k, ta, tb, accumulate, with_bias] = form;
    std::vector<double> out(c.size());
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double total = (accumulate ? c[i * n + j] : 0) + (with_bias ? bias[j] : 0);
        for (std::int64_t l = 0; l < k; ++l)
          total += double(a[ta ? l * m + i : i * k + l]) * b[tb ? j * k + l : l * n + j];
        out[i * n + j] = total;
      }
    return out;
  }
};

template <class T>
void check_all_forms(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (int bits = 0; bits < 16; ++bits) {
    const Case<T> test(
        {m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
    EXPECT_TRUE(check::near(test.run(), test.reference(), check::kTolerance<T> * 10))
        << m << " x " << n << " x " << k << ", form " << bits;
  }
}

template <class T>
class GemmTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, OddSizesInAllForms) {
  for (const std::int64_t m : {0, 1, 31, 33})
    for (const std::int64_t n : {0, 1, 31, 33})
      for (const std::int64_t k : {0, 1, 31, 33}) check_all_forms<TypeParam>(m, n, k);
}

TYPED_TEST(GemmTest, ManyTiles) {
  check_all_forms<TypeParam>(300, 270, 65);
  check_all_forms<TypeParam>(33, 65, 1000);
}

TYPED_TEST(GemmTest, SameBitsOnAnyThreads) {
  check::expect_same_on_any_threads([] {
    return Case<TypeParam>({513, 260, 129, true, false, true, true}).run();
  });
}

// What c held before is not read: a NaN there does not survive.
// Up to 16 rows times a transposed matrix: each row is what it is alone.
TYPED_TEST(GemmTest, FewRowsAreIndependent) {
  for (const std::int64_t k : {1, 15, 16, 50, 400})
    for (const std::int64_t n : {1, 7, 130}) {
      Case<TypeParam> all({kFewRows, n, k, false, true, false, true});
      const std::vector<TypeParam> expected = all.run();
      for (std::int64_t m = 1; m <= kFewRows; ++m)
        for (std::int64_t first = 0; first + m <= kFewRows; first += 3) {
          Case<TypeParam> some({m, n, k, false, true, false, true});
          std::copy_n(all.a.begin() + first * k, m * k, some.a.begin());
          some.b = all.b;
          some.bias = all.bias;
          const std::vector<TypeParam> c = some.run();
          EXPECT_TRUE(std::equal(c.begin(), c.end(), expected.begin() + first * n))
              << m << " rows from " << first << ", n " << n << ", k " << k;
        }
    }
}

// Rows in whole tiles, many of which are one product: each is what it is in one tile, wherever the
// rounds of rows in it begin.
TYPED_TEST(GemmTest, RowsOfTilesAreIndependent) {
  constexpr std::int64_t kTiles = 40, kWidth = 256, kDepth = 180;
  for (const std::int64_t n : {kWidth, kWidth - 6}) {
    Case<TypeParam> all({kTiles * kRowTile, n, kDepth, false, true, false, true});
    const std::vector<TypeParam> expected = all.run();
    for (std::int64_t first = 0; first + kRowTile <= kTiles * kRowTile; first += 9 * kRowPeriod) {
      Case<TypeParam> some({kRowTile, n, kDepth, false, true, false, true});
      std::copy_n(all.a.begin() + first * kDepth, kRowTile * kDepth, some.a.begin());
      some.b = all.b;
      some.bias = all.bias;
      const std::vector<TypeParam> c = some.run();
      EXPECT_TRUE(std::equal(c.begin(), c.end(), expected.begin() + first * n))
          << "rows from " << first << ", n " << n;
    }
  }
}

// Also where the library does not know the processor.
TEST(GemmProcessor, LoopsHaveItsVectors) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || std::getenv("OPENBLAS_CORETYPE") != nullptr)
    GTEST_SKIP() << "no AVX2, or a processor that was named";
  EXPECT_NE(std::string(openblas_get_corename()), "Prescott");
#endif
}

TYPED_TEST(GemmTest, OverwritesNan) {
  Case<TypeParam> test({5, 7, 3, false, true, false, true});
  for (auto& value : test.c) value = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_TRUE(check::near(test.run(), test.reference()));
}

// Numbers of which sums in float would be of something else, rounded once.
TEST(WideProductTest, SumsInDoubleInAllForms) {
  for (int bits = 0; bits < 16; ++bits) {
    Case<float> test(
        {7, 5, 90, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
    const Form& form = test.form;
    for (std::size_t i = 0; i < test.a.size(); ++i)
      test.a[i] = std::ldexp(test.a[i], static_cast<int>(i * 7 % 20));
    std::vector<float> out = test.c;
    cpu::wide_product({.c = out.data(),
                       .a = test.a.data(),
                       .b = test.b.data(),
                       .m = form.m,
                       .n = form.n,
                       .k = form.k,
                       .transpose_a = form.transpose_a,
                       .transpose_b = form.transpose_b,
                       .accumulate = form.accumulate,
                       .bias = form.bias ? test.bias.data() : nullptr});
    const std::vector<double> expected = test.reference();
    for (std::size_t i = 0; i < out.size(); ++i)
      EXPECT_NEAR(out[i], expected[i], 0x1.001p-24 * std::abs(expected[i]) + 1e-6) << bits;
  }
}

}  // namespace
}  // namespace mt
