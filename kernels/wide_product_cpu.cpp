#include "kernels/wide_product.h"

#include <vector>

#include "kernels/gemm.h"
#include "kernels/loops.h"

namespace mt::cpu {
namespace {

template <class To, class From>
void convert(To* y, const From* x, std::int64_t count) {
  for_blocks(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<To>(x[i]);
  });
}

std::vector<double> wide(const float* x, std::int64_t count) {
  std::vector<double> y(static_cast<std::size_t>(count));
  convert(y.data(), x, count);
  return y;
}

}  // namespace

void wide_product(const WideProduct<float>& p) {
  const std::vector<double> a = wide(p.a, p.m * p.k), b = wide(p.b, p.k * p.n),
                            bias = wide(p.bias, p.bias != nullptr ? p.n : 0);
  std::vector<double> c(static_cast<std::size_t>(p.m * p.n));
  if (p.accumulate) convert(c.data(), p.c, p.m * p.n);
  gemm<double>({.c = c.data(),
                .a = a.data(),
                .b = b.data(),
                .m = p.m,
                .n = p.n,
                .k = p.k,
                .transpose_a = p.transpose_a,
                .transpose_b = p.transpose_b,
                .accumulate = p.accumulate,
                .bias = p.bias != nullptr ? bias.data() : nullptr});
  convert(p.c, c.data(), p.m * p.n);
}

}  // namespace mt::cpu
