#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

namespace {
struct GpuLibrary : Stream::Kept {
  cuda::GemmLibrary gemm;
};
}  // namespace

// A stream's own, started by its first product.
static cuda::GemmLibrary& library(Stream& stream) {
  if (!stream.kept()) stream.kept() = std::make_unique<GpuLibrary>();
  return static_cast<GpuLibrary&>(*stream.kept()).gemm;
}

using Then = Matmul::Then;

// What the products themselves do not do, on either device.
static void finish(const Matmul& p, Stream& stream) {
  if (p.then == Then::gelu) gelu_forward(p.out, p.at ? p.at : p.out, GeluForm::tanh, stream);
  if (p.then == Then::gelu_gradient) gelu_backward(p.out, p.out, p.at, GeluForm::tanh, stream);
  if (p.sums_a) column_sum(p.sums_a, p.a, stream);
}

// Whether cuBLASLt can do it all in one pass.
static bool is_fused(const Matmul& p) {
  return size_of(p.a.dtype()) == 2 && p.out.shape()[1] % 8 == 0;
}

template <class T, class C>
static Gemm<T, C> problem_of(const Matmul& p, const Tensor& out, std::int64_t k) {
  return {.c = out.as<C>(),
          .a = p.a.as<T>(),
          .b = p.b.as<T>(),
          .m = out.shape()[0],
          .n = out.shape()[1],
          .k = k,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .accumulate = p.accumulate,
          .bias = or_null<T>(p.bias)};
}

// The sums over k come out beside the products and are then added where they belong.
template <class T, class C>
static void multiply_fused(const Matmul& p, std::int64_t k, void* work, Stream& stream) {
  Gemm<T, C> problem = problem_of<T, C>(p, p.out, k);
  if (p.then == Then::gelu) problem.then = GemmThen::gelu;
  if (p.then == Then::gelu_gradient) problem.then = GemmThen::gelu_gradient;
  problem.at = p.at ? p.at.as<T>() : nullptr;
  auto* const sums = reinterpret_cast<float*>(static_cast<std::byte*>(work) + cuda::kGemmWork);
  if (p.sums_a) problem.sums_a = sums;
  library(stream).gemm(problem, work, stream.handle());
  if (p.sums_a)
    cuda::add(p.sums_a.as<float>(), p.sums_a.as<float>(), sums, problem.m, stream.handle());
}

void matmul(const Matmul& p, Stream& stream) {
  const Shape &a = p.a.shape(), &b = p.b.shape();
  const std::int64_t m = a[p.transpose_a ? 1 : 0], k = a[p.transpose_a ? 0 : 1];
  const std::int64_t n = b[p.transpose_b ? 0 : 1];
  check_shape("matmul", "out", p.out, {m, n});
  check_shape("matmul", "b", p.b, p.transpose_b ? Shape{n, k} : Shape{k, n});
  if (p.bias) check_shape("matmul", "bias", p.bias, {n});
  if (p.at) check_shape("matmul", "at", p.at, {m, n});
  if (p.sums_a) check_shape("matmul", "sums_a", p.sums_a, {m});
  Cost cost = moves(p.out, p.a, p.b);
  cost.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::size_t sums = p.sums_a ? p.sums_a.bytes() : 0;
  void* const work = gpu_work(p.a, stream, [&] { return cuda::kGemmWork + sums; });
  // Where GeLU comes afterwards, the product goes to where it is looked at.
  const Tensor out = p.then == Then::gelu && p.at ? p.at : p.out;
  const bool fused = p.a.device() == Device::cuda && is_fused(p);
  dispatch(
      p.a, cost, stream, [&]<class T>() { cpu::gemm<T>(problem_of<T, T>(p, out, k)); },
      [&]<class T>() {
        const auto multiply = [&]<class C>() {
          if (fused) return multiply_fused<T, C>(p, k, work, stream);
          library(stream).gemm(problem_of<T, C>(p, out, k), work, stream.handle());
        };
        if (p.out.dtype() == DType::f32)
          multiply.template operator()<float>();
        else
          multiply.template operator()<T>();
      });
  if (!fused) finish(p, stream);
}

}  // namespace mt
