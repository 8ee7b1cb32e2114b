#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void matmul(const Matmul& p, Stream& stream) {
  const Shape &a = p.a.shape(), &b = p.b.shape();
  const std::int64_t m = a[p.transpose_a ? 1 : 0], k = a[p.transpose_a ? 0 : 1];
  const std::int64_t n = b[p.transpose_b ? 0 : 1];
  check_shape("matmul", "out", p.out, {m, n});
  check_shape("matmul", "b", p.b, p.transpose_b ? Shape{n, k} : Shape{k, n});
  if (p.bias) check_shape("matmul", "bias", p.bias, {n});
  Cost cost = moves(p.out, p.a, p.b);
  cost.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  dispatch(p.out, cost, stream, [&]<class T>() {
    cpu::gemm<T>({.c = p.out.as<T>(),
                  .a = p.a.as<T>(),
                  .b = p.b.as<T>(),
                  .m = m,
                  .n = n,
                  .k = k,
                  .transpose_a = p.transpose_a,
                  .transpose_b = p.transpose_b,
                  .accumulate = p.accumulate,
                  .bias = or_null<T>(p.bias)});
  });
}

}  // namespace mt
