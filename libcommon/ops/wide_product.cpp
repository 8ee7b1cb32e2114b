#include "ops/wide_product.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/wide_product.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {
namespace {

template <class A, class B, class C>
WideProduct<A, B, C> problem_of(const WideMatmul& p) {
  return {.c = p.out.as<C>(),
          .a = p.a.as<A>(),
          .b = p.b.as<B>(),
          .m = p.out.shape()[0],
          .n = p.out.shape()[1],
          .k = p.a.shape()[p.transpose_a ? 0 : 1],
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .accumulate = p.accumulate,
          .bias = or_null<B>(p.bias)};
}

// Rows that are by themselves, as many at a time as the CPU's product makes alike.
void multiply_here(const WideMatmul& p) {
  const std::int64_t rows = p.out.shape()[0], part = p.rows_alone ? kFewRows : rows;
  for (std::int64_t begin = 0; begin < rows; begin += part) {
    const std::int64_t end = std::min(rows, begin + part);
    WideMatmul some = p;
    some.out = p.out.rows(begin, end);
    if (p.rows_alone) some.a = p.a.rows(begin, end);
    cpu::wide_product(problem_of<float, float, float>(some));
  }
}

template <class T>
void multiply_there(const WideMatmul& p, Stream& stream) {
  const auto multiply = [&]<class A, class C>() {
    cuda::wide_product(problem_of<A, T, C>(p), stream.handle());
  };
  if (p.a.dtype() != DType::f32)
    multiply.template operator()<T, float>();
  else if (p.out.dtype() == DType::f32)
    multiply.template operator()<float, float>();
  else
    multiply.template operator()<float, T>();
}

void multiply_in_double(const WideMatmul& p, const Cost& cost, Stream& stream) {
  if (p.out.device() == Device::meta) return stream.count(cost, Family::product);
  const Stream::Working working(stream, Family::product);
  if constexpr (kWithCuda)
    if (p.out.device() == Device::cuda)
      return with_gpu_type(p.b.dtype(), [&]<class T>() { multiply_there<T>(p, stream); });
  stream.run([&] { multiply_here(p); });
}

// Where numbers of 16 bits, and a product that is to become such, lie in f32: in scratch behind
// what matmul() needs itself.
class Casts {
 public:
  Casts(const WideMatmul& p, Stream& stream) : p_(p), stream_(stream) {
    const std::size_t in_f32 = static_cast<std::size_t>(p.a.numel()) * size_of(DType::f32);
    begin_ = aligned(std::max(cuda::kGemmWork, p.rows_alone ? in_f32 : 0));
    std::size_t end = begin_;
    for (const ConstTensor& one : {p.a, p.b, p.bias, ConstTensor(p.out)}) end += bytes_of(one);
    work_ = static_cast<std::byte*>(gpu_work(p.out, stream, [&] { return end; }));
  }
  Tensor place(const ConstTensor& like) {
    const Tensor cast(work_ + begin_, DType::f32, like.shape(), p_.out.device());
    begin_ += bytes_of(like);
    return cast;
  }
  ConstTensor of(const ConstTensor& x) {
    if (!x || x.dtype() == DType::f32) return x;
    const Tensor cast = place(x);
    copy(cast, x, stream_);
    return cast;
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static std::size_t bytes_of(const ConstTensor& x) {
    if (!x || x.dtype() == DType::f32) return 0;
    return aligned(static_cast<std::size_t>(x.numel()) * size_of(DType::f32));
  }
  const WideMatmul& p_;
  Stream& stream_;
  std::size_t begin_ = 0;
  std::byte* work_ = nullptr;
};

void multiply_in_float(const WideMatmul& p, Stream& stream) {
  if (p.out.device() == Device::cpu)
    fail(Exit::internal, "wide_matmul: sums of ", name_of(p.sums), " on the CPU");
  Casts casts(p, stream);
  const bool direct = p.out.dtype() == DType::f32;
  const Tensor product = direct ? p.out : casts.place(p.out);
  matmul({.out = product,
          .a = casts.of(p.a),
          .b = casts.of(p.b),
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .accumulate = direct && p.accumulate,
          .bias = casts.of(p.bias),
          .rows_alone = p.rows_alone},
         stream);
  if (direct) return;
  if (p.accumulate)
    add(p.out, p.out, product, stream);
  else
    copy(p.out, product, stream);
}

}  // namespace

void wide_matmul(const WideMatmul& p, Stream& stream) {
  const Shape &a = p.a.shape(), &b = p.b.shape();
  const std::int64_t m = a[p.transpose_a ? 1 : 0], k = a[p.transpose_a ? 0 : 1],
                     n = b[p.transpose_b ? 0 : 1];
  check_shape("wide_matmul", "out", p.out, {m, n});
  check_shape("wide_matmul", "b", p.b, p.transpose_b ? Shape{n, k} : Shape{k, n});
  if (p.bias) check_shape("wide_matmul", "bias", p.bias, {n});
  if (p.sums != DType::f64) return multiply_in_float(p, stream);
  Cost cost = moves(p.out, p.a, p.b);
  cost.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  multiply_in_double(p, cost, stream);
}

}  // namespace mt
