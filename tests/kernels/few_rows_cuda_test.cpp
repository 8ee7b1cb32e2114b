// Products of few rows on a GPU beside the CPU's in double, with all that goes with them.
#include "kernels/few_rows.h"

#include <cmath>

#include "kernels/activation.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::bf16;
using check::fp16;
using check::Input;
using check::Numbers;

template <class T>
class FewRowsCuda : public check::CudaTest<T> {};
TYPED_TEST_SUITE(FewRowsCuda, check::ElementTypes);

struct Extra {
  bool bias = false, residual = false, at = false;
  enum class Then : std::uint8_t { store, gelu, swiglu } then = Then::store;
  enum class Norm : std::uint8_t { none, rms, layer } norm = Norm::none;
};

template <class T>
struct Problem {
  using Few = FewRows<T, T>;

  Problem(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Extra& what)
      : m(rows),
        n(columns),
        k(inner),
        extra(what),
        a(m * k, 1),
        b(n * k, 2, 0, -2 / std::sqrt(static_cast<double>(k)),
          2 / std::sqrt(static_cast<double>(k))),
        bias(n, 3),
        residual(m * n, 4),
        w(k, 5, 0, 0.5, 1.5),
        shift(k, 6),
        work(m * k) {}

  bool swiglu() const { return extra.then == Extra::Then::swiglu; }
  std::int64_t width() const { return swiglu() ? n / 2 : n; }

  // Rows [first, last) alone.
  Few on_gpu(const Numbers<T>& c, const Numbers<T>& at, std::int64_t first,
             std::int64_t last) const {
    Few few{.c = c.data() + first * width(),
            .a = a.data() + first * k,
            .b = b.data(),
            .m = last - first,
            .n = n,
            .k = k,
            .bias = extra.bias ? bias.data() : nullptr,
            .residual = extra.residual ? residual.data() + first * n : nullptr,
            .then = static_cast<typename Few::Then>(extra.then),
            .at = extra.at ? at.data() + first * n : nullptr};
    if (extra.norm != Extra::Norm::none)
      few.norm = {.w = w.data(),
                  .shift = extra.norm == Extra::Norm::layer ? shift.data() : nullptr,
                  .eps = 1e-5f,
                  .centred = extra.norm == Extra::Norm::layer};
    few.work = work.data();
    return few;
  }

  // c, then z.
  std::pair<std::vector<double>, std::vector<double>> expected() const {
    std::vector<double> x = a.host, mean(m), rstd(m), z(m * n), c(m * width());
    if (extra.norm == Extra::Norm::rms)
      cpu::rms_norm_forward(x.data(), rstd.data(), a.host.data(), w.host.data(), m, k, 1e-5);
    if (extra.norm == Extra::Norm::layer)
      cpu::layer_norm_forward(x.data(), mean.data(), rstd.data(), a.host.data(), w.host.data(),
                              shift.host.data(), m, k, 1e-5);
    for (double& value : x)  // it is rounded before the product
      value = static_cast<double>(static_cast<float>(T(static_cast<float>(value))));
    cpu::gemm<double>({.c = z.data(),
                       .a = x.data(),
                       .b = b.host.data(),
                       .m = m,
                       .n = n,
                       .k = k,
                       .transpose_b = true,
                       .bias = extra.bias ? bias.host.data() : nullptr});
    c = z;
    if (extra.then == Extra::Then::gelu)
      cpu::gelu_forward(c.data(), z.data(), m * n, GeluForm::tanh);
    if (swiglu()) {
      c.resize(m * width());
      cpu::swiglu_forward(c.data(), z.data(), m, width());
    }
    if (extra.residual)
      for (std::int64_t i = 0; i < m * n; ++i) c[i] += residual.host[i];
    return {c, z};
  }

  std::int64_t m, n, k;
  Extra extra;
  Input<T> a, b, bias, residual, w, shift;
  Numbers<T> work;
};

// Of sums of k products that are near 1, as b is small.
template <class T>
double tolerance(std::int64_t k) {
  return 4 * check::kRounding<T> + 2e-7 * std::sqrt(static_cast<double>(k)) * 4;
}

template <class T>
void check_problem(const Problem<T>& p) {
  const Numbers<T> c(p.m * p.width()), at(p.m * p.n);
  const auto few = p.on_gpu(c, at, 0, p.m);
  if (few.norm.w && !cuda::few_rows_norms(few)) return;
  cuda::few_rows(few, nullptr);
  const auto [expected, z] = p.expected();
  EXPECT_TRUE(check::near(c, expected, tolerance<T>(p.k))) << p.m << " x " << p.n << " x " << p.k;
  if (!p.extra.at) return;
  EXPECT_TRUE(check::near(at, z, tolerance<T>(p.k)));
}

TYPED_TEST(FewRowsCuda, Sizes) {
  for (const std::int64_t m : {1, 2, 8, 9, 16, 17, 33, 70, 200})
    for (const std::int64_t n : {1, 15, 16, 33, 500})
      for (const std::int64_t k : {1, 8, 31, 72, 520, 2048, 4104})
        check_problem(Problem<TypeParam>(m, n, k, {}));
}

TYPED_TEST(FewRowsCuda, WhatGoesWithIt) {
  using Then = Extra::Then;
  using Norm = Extra::Norm;
  for (const std::int64_t m : {1, 5, 16, 21, 50, 130})
    for (const Norm norm : {Norm::none, Norm::rms, Norm::layer}) {
      check_problem(
          Problem<TypeParam>(m, 130, 264, {.bias = true, .residual = true, .norm = norm}));
      check_problem(Problem<TypeParam>(
          m, 130, 264, {.bias = true, .at = true, .then = Then::gelu, .norm = norm}));
      check_problem(
          Problem<TypeParam>(m, 130, 264, {.at = true, .then = Then::swiglu, .norm = norm}));
      if (m > 21) continue;
      check_problem(
          Problem<TypeParam>(m, 2600, 6152, {.bias = true, .then = Then::swiglu, .norm = norm}));
      // On an H100 or H200 a pass of 16 columns a block and one of 8.
      check_problem(Problem<TypeParam>(m, 2613, 1288,
                                       {.bias = true, .residual = true, .at = true, .norm = norm}));
    }
}

TYPED_TEST(FewRowsCuda, WhatIsReadAheadChangesNothing) {
  const Problem<TypeParam> p(3, 500, 2056, {.residual = true});
  const auto expected = p.expected().first;
  for (const std::int64_t elements : {1, 600, 1 << 13, 1 << 22}) {
    const Numbers<TypeParam> later(elements), c(p.m * p.n), at(p.m * p.n);
    auto few = p.on_gpu(c, at, 0, p.m);
    few.ahead = later.data();
    few.ahead_bytes = static_cast<std::size_t>(elements) * sizeof(TypeParam);
    cuda::few_rows(few, nullptr);
    EXPECT_TRUE(check::near(c, expected, tolerance<TypeParam>(p.k))) << elements;
  }
}

TYPED_TEST(FewRowsCuda, RowsDoNotNoticeEachOther) {
  using Then = Extra::Then;
  using Norm = Extra::Norm;
  for (const std::int64_t m : {16, 20, 50, 200})
    for (const std::int64_t k : {72, 2048, 6152, 33})
      for (const Extra& extra :
           {Extra{.norm = Norm::rms},
            Extra{.bias = true, .at = true, .then = Then::gelu, .norm = Norm::layer},
            Extra{.at = true, .then = Then::swiglu, .norm = Norm::rms},
            Extra{.bias = true, .residual = true}}) {
        Problem<TypeParam> p(m, m == 50 ? 500 : 528, k, extra);  // whole units of 16 bytes, or not
        if (k == 33) p.extra.norm = Norm::none;
        const Numbers<TypeParam> together(m * p.width()), alone(m * p.width()), at(m * p.n),
            at_alone(m * p.n);
        auto all = p.on_gpu(together, at, 0, m);
        if (all.norm.w && !cuda::few_rows_norms(all)) all.norm = {};
        cuda::few_rows(all, nullptr);
        for (std::int64_t i = 0; i < m; ++i) {
          auto one = p.on_gpu(alone, at_alone, i, i + 1);
          one.norm = all.norm;
          cuda::few_rows(one, nullptr);
        }
        check::check_cuda(cudaDeviceSynchronize());
        EXPECT_TRUE(check::same_bits(together.bits(), alone.bits())) << m << " of " << k;
        if (extra.at) {
          EXPECT_TRUE(check::same_bits(at.bits(), at_alone.bits())) << m << " of " << k;
        }
      }
}

}  // namespace
}  // namespace mt
