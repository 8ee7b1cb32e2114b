#include <algorithm>

#include "kernels/few_rows.h"
#include "kernels/fp8_blocks.h"
#include "kernels/gemm.h"
#include "kernels/gpu.h"
#include "kernels/packed_few_rows.h"
#include "kernels/packed_rows.h"
#include "ops/check.h"
#include "ops/gpu_library.h"
#include "ops/ops.h"

namespace mt {

void search_products(Stream& stream) {
  if constexpr (kWithCuda)
    if (stream.device() == Device::cuda) gpu_library(stream).gemm.search();
}

bool search_products_again(Stream& stream) {
  if constexpr (kWithCuda)
    return stream.device() == Device::cuda && gpu_library(stream).gemm.search_again();
  return false;
}

using Then = Matmul::Then;

// What the products themselves do not do, on either device.
static void finish(const Matmul& p, Stream& stream) {
  if (p.then == Then::gelu) gelu_forward(p.out, p.at ? p.at : p.out, GeluForm::tanh, stream);
  if (p.then == Then::swiglu) swiglu_forward(p.out, p.at, stream);
  if (p.then == Then::gelu_gradient) gelu_backward(p.out, p.out, p.at, GeluForm::tanh, stream);
  if (p.residual) bias_dropout_add(p.out, p.residual, p.out, p.bias, {}, stream);
}

// Whether cuBLASLt can do it all in one pass.
static bool is_fused(const Matmul& p) {
  return size_of(p.a.dtype()) == 2 && p.out.shape()[1] % 8 == 0 && p.then != Then::swiglu;
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
          .bias = p.residual ? nullptr : or_null<T>(p.bias),
          .rows_vary = p.rows_vary};
}

template <class T, class C>
static Gemm<T, C> fused_problem_of(const Matmul& p, std::int64_t k) {
  Gemm<T, C> problem = problem_of<T, C>(p, p.out, k);
  problem.bias = or_null<T>(p.bias);
  problem.residual = or_null<C>(p.residual);
  if (p.then == Then::gelu) problem.then = GemmThen::gelu;
  if (p.then == Then::gelu_gradient) problem.then = GemmThen::gelu_gradient;
  problem.at = p.at ? p.at.as<T>() : nullptr;
  return problem;
}

template <class C>
static Fp8Gemm<C> codes_problem_of(const Matmul& p, const Tensor& out, std::int64_t k) {
  return {.c = out.as<C>(),
          .a = p.a.as<std::uint8_t>(),
          .b = p.b.as<std::uint8_t>(),
          .a_format = p.codes.a,
          .b_format = p.codes.b,
          .a_inverse = p.codes.a_inverse.as<float>(),
          .b_inverse = p.codes.b_inverse.as<float>(),
          .m = out.shape()[0],
          .n = out.shape()[1],
          .k = k,
          .accumulate = p.accumulate,
          .bias = p.residual ? nullptr : or_null<C>(p.bias),
          .fast = p.codes.fast};
}

template <class C>
static Fp8BlockGemm<C> blocks_problem_of(const Matmul& p, const Tensor& out, std::int64_t k) {
  return {.c = out.as<C>(),
          .a = p.a.as<std::uint8_t>(),
          .b = p.b.as<std::uint8_t>(),
          .a_inverse = p.codes.a_inverse.as<float>() + p.codes.first_row,
          .b_inverse = p.codes.b_inverse.as<float>(),
          .m = out.shape()[0],
          .n = out.shape()[1],
          .k = k,
          .a_rows = p.codes.a_inverse.shape()[1],
          .squares = p.codes.squares,
          .accumulate = p.accumulate,
          .bias = p.residual ? nullptr : or_null<C>(p.bias)};
}

// Whether codes of blocks are multiplied as they are: on Hopper, which a GPU that is planned for is
// taken to be where there are kernels for it.
static bool multiplies_codes(Device device) {
  if constexpr (cuda::kHopper) return device != Device::cuda || cuda::hopper_kernels();
  return false;
}

// Bytes of what so many codes stand for, at a multiple of 256.
static std::size_t bytes_of_numbers(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(std::uint16_t) + 255) / 256 * 256;
}

// Multiplies codes of blocks; elsewhere than on Hopper, what they stand for, which bf16 holds, from
// behind kGemmWork bytes of `work` on.
template <class C>
static void multiply_blocks(const Fp8BlockGemm<C>& p, void* work, Stream& stream) {
  if constexpr (cuda::kHopper)
    if (multiplies_codes(Device::cuda)) return cuda::hopper::fp8_block_gemm(p, stream.handle());
  if (std::is_same_v<C, float> && p.bias)
    fail(Exit::internal, "matmul: blocks of codes and a bias of float32");
  using T = __nv_bfloat16;
  std::byte* const numbers = static_cast<std::byte*>(work) + cuda::kGemmWork;
  auto *const a = reinterpret_cast<T*>(numbers), *const b = reinterpret_cast<T*>(
                                                     numbers + bytes_of_numbers(p.m * p.k));
  cuda::fp8_block_numbers(a, p.a, p.a_inverse, p.m, p.k, p.a_rows, stream.handle());
  cuda::fp8_block_numbers(b, p.b, p.b_inverse, p.n, p.k, p.n, stream.handle());
  Gemm<T, C> problem{.c = p.c,
                     .a = a,
                     .b = b,
                     .m = p.m,
                     .n = p.n,
                     .k = p.k,
                     .transpose_b = true,
                     .accumulate = p.accumulate};
  if constexpr (std::is_same_v<C, T>) problem.bias = p.bias;
  gpu_library(stream).gemm.gemm(problem, work, stream.handle());
}

// Whether it is a product of few rows, or of rows by themselves, which have a kernel of their own
// on GPUs.
static bool is_few_rows(const Matmul& p) {
  const bool wanted = p.rows_alone || (p.a.shape()[0] <= kFewRows && !p.accumulate);
  return wanted && p.a.device() == Device::cuda && !p.codes && !p.transpose_a && p.transpose_b &&
         p.then != Then::gelu_gradient;
}

// Of z, before what comes then.
static std::int64_t columns_of(const Matmul& p) { return (p.at ? p.at : p.out).shape()[1]; }

template <class T, class C>
static FewRows<T, C> few_rows_of(const Matmul& p, void* work) {
  using Few = FewRows<T, C>;
  return {.c = p.out.as<C>(),
          .a = p.a.as<T>(),
          .b = p.tiles ? nullptr : p.b.as<T>(),
          .m = p.a.shape()[0],
          .n = p.tiles ? columns_of(p) : p.b.shape()[0],
          .k = p.a.shape()[1],
          .bias = or_null<T>(p.bias),
          .residual = or_null<C>(p.accumulate ? p.out : p.residual),
          .then = p.then == Then::gelu     ? Few::Then::gelu
                  : p.then == Then::swiglu ? Few::Then::swiglu
                                           : Few::Then::store,
          .at = p.at ? p.at.as<T>() : nullptr,
          .norm = {.w = or_null<T>(p.norm.weight),
                   .shift = or_null<T>(p.norm.bias),
                   .eps = static_cast<float>(p.norm.eps),
                   .offset = static_cast<float>(p.norm.offset),
                   .centred = p.norm.centred},
          .ahead = p.ahead ? p.ahead.data() : nullptr,
          .ahead_bytes = p.ahead ? p.ahead.bytes() : 0,
          .work = static_cast<T*>(work)};
}

// body(FewRows) of a problem's types.
template <class Body>
static void with_few_rows(const Matmul& p, void* work, const Body& body) {
  with_gpu_type(p.a.dtype(), [&]<class T>() {
    if (p.out.dtype() == DType::f32)
      body(few_rows_of<T, float>(p, work));
    else
      body(few_rows_of<T, T>(p, work));
  });
}

bool has_tiles_products() {
  if constexpr (kWithCuda) return cuda::has_packed_few_rows();
  return false;
}

// Up to how many rows alone are multiplied with tiles as they lie, some of them at a time.
constexpr std::int64_t kTilesAlone = 32;

// Whether rows are multiplied with tiles as they lie.
static bool multiplies_tiles(const Matmul& p) {
  bool multiplies = false;
  if constexpr (kWithCuda)
    if (p.a.device() == Device::cuda && size_of(p.a.dtype()) == 2 &&
        p.then != Then::gelu_gradient && p.a.shape()[0] <= (p.rows_alone ? kTilesAlone : kFewRows))
      with_few_rows(p, nullptr, [&]<class T, class C>(const FewRows<T, C>& few) {
        if constexpr (std::is_same_v<T, __nv_bfloat16>)
          multiplies = cuda::packed_few_rows_fit(few, *p.tiles);
      });
  return multiplies;
}

bool takes_norm(const Matmul& p) {
  if (p.tiles) return multiplies_tiles(p);
  bool takes = false;
  if constexpr (kWithCuda)
    if (is_few_rows(p))
      with_few_rows(p, nullptr, [&](const auto& few) { takes = cuda::few_rows_norms(few); });
  return takes;
}

// Multiplies rows that are by themselves kFewRows at a time.
static void in_groups(const Matmul& p, Stream& stream) {
  const std::int64_t rows = p.a.shape()[0];
  for (std::int64_t begin = 0; begin < rows; begin += kFewRows) {
    const std::int64_t end = std::min(rows, begin + kFewRows);
    Matmul some = p;
    some.out = p.out.rows(begin, end);
    some.a = p.a.rows(begin, end);
    if (p.at) some.at = p.at.rows(begin, end);
    if (p.residual) some.residual = p.residual.rows(begin, end);
    if (p.codes.blocks) some.codes.first_row += begin;
    matmul(some, stream);
  }
}

static PackedProduct packed_problem_of(const Matmul& p, const Tensor& out, std::int64_t k) {
  const PackedRows rows(p.b.as<std::uint8_t>());
  if (rows.cols() != k || rows.rows() < out.shape()[1])
    fail(Exit::internal, "matmul: packed rows are ", Shape{rows.rows(), rows.cols()}, ", expected ",
         Shape{out.shape()[1], k});
  return {.y = out.as<float>(),
          .x = p.a.as<float>(),
          .w = p.b.as<std::uint8_t>(),
          .bias = p.residual ? nullptr : or_null<float>(p.bias),
          .m = out.shape()[0],
          .n = out.shape()[1],
          .accumulate = p.accumulate};
}

// The product with the numbers that tiles stand for, which lie in scratch behind what it needs
// itself.
static void multiply_unpacked(const Matmul& p, Stream& stream) {
  const PackedTiles& form = *p.tiles;
  const std::size_t own = std::max(cuda::kGemmWork, p.rows_alone ? p.a.bytes() : 0),
                    begin = (own + 255) / 256 * 256;
  auto* const work = static_cast<std::byte*>(gpu_work(p.out, stream, [&] {
    return begin + static_cast<std::size_t>(form.rows() * form.cols()) * size_of(p.a.dtype());
  }));
  const Tensor numbers(work + begin, p.a.dtype(), {form.rows(), form.cols()}, p.a.device());
  unpack_tiles(numbers, p.b, form, stream);
  Matmul problem = p;
  problem.tiles = nullptr;
  problem.b = numbers.rows(0, columns_of(p));
  problem.b_is_new = true;
  problem.ahead = {};
  matmul(problem, stream);
}

static void multiply_tiles(const Matmul& p, const Cost& cost, Stream& stream) {
  const PackedTiles& form = *p.tiles;
  const std::int64_t k = p.a.shape()[1], n = columns_of(p);
  if (form.cols() != k || form.rows() < n)
    fail(Exit::internal, "matmul: tiles are ", Shape{form.rows(), form.cols()}, ", expected ",
         Shape{n, k});
  if (p.out.device() == Device::meta && p.a.shape()[0] <= kFewRows)
    return stream.count(cost, Family::product);
  if (!multiplies_tiles(p)) return multiply_unpacked(p, stream);
  if (p.a.shape()[0] > kFewRows) return in_groups(p, stream);
  const Stream::Working working(stream, Family::product);
  if constexpr (kWithCuda)
    with_few_rows(p, nullptr, [&]<class T, class C>(const FewRows<T, C>& few) {
      if constexpr (std::is_same_v<T, __nv_bfloat16>)
        cuda::packed_few_rows(few, p.b.as<std::uint8_t>(), *p.tiles, stream.handle());
    });
}

void matmul(const Matmul& p, Stream& stream) {
  const Shape &a = p.a.shape(), &b = p.b.shape();
  const std::int64_t m = a[p.transpose_a ? 1 : 0], k = a[p.transpose_a ? 0 : 1];
  const bool lies_otherwise = p.packed || p.tiles;
  const std::int64_t n = lies_otherwise ? columns_of(p) : b[p.transpose_b ? 0 : 1];
  check_shape("matmul", "out", p.out, {m, p.then == Then::swiglu ? n / 2 : n});
  if (!lies_otherwise) check_shape("matmul", "b", p.b, p.transpose_b ? Shape{n, k} : Shape{k, n});
  if (p.bias) check_shape("matmul", "bias", p.bias, {n});
  if (p.at) check_shape("matmul", "at", p.at, {m, n});
  if (p.residual) check_shape("matmul", "residual", p.residual, {m, n});
  Cost cost = moves(p.out, p.a, p.b);
  cost.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (p.codes && (!p.codes.blocks || multiplies_codes(p.out.device())))
    cost.code_flops = cost.flops;
  if (p.norm.weight && !takes_norm(p)) fail(Exit::internal, "matmul: a norm");
  if (p.tiles) return multiply_tiles(p, cost, stream);
  if (p.rows_alone && m > kFewRows && p.a.device() == Device::cpu && !p.packed)
    return in_groups(p, stream);
  void* const work = gpu_work(p.out, stream, [&] {
    if (p.codes.blocks && !multiplies_codes(p.out.device()))
      return cuda::kGemmWork + bytes_of_numbers(m * k) + bytes_of_numbers(n * k);
    return std::max(cuda::kGemmWork, p.rows_alone ? p.a.bytes() : 0);
  });
  if constexpr (kWithCuda)
    if (is_few_rows(p)) {
      // Ahead of its turn the kernel begins behind another one alone.
      if (p.b_is_new) set_zero(Tensor(work, DType::u8, {1}, p.a.device()), stream);
      return with_few_rows(p, work, [&](const auto& few) { cuda::few_rows(few, stream.handle()); });
    }
  // Where GeLU or SwiGLU comes afterwards, the product goes to where it is looked at.
  const bool apart = p.then == Then::gelu || p.then == Then::swiglu;
  const Tensor out = apart && p.at ? p.at : p.out;
  if (p.packed) {
    dispatch_floats(Family::product, "matmul of packed rows", p.a, cost, stream,
                    [&] { cpu::packed_product(packed_problem_of(p, out, k)); });
    return finish(p, stream);
  }
  if (p.codes.blocks) {
    check_shape("matmul", "inverses", p.codes.b_inverse, {fp8_blocks(k), n});
    dispatch(
        Family::product, p.out, cost, stream,
        [&]<class T>() { cpu::fp8_block_gemm(blocks_problem_of<T>(p, out, k)); },
        [&]<class T>() {
          if constexpr (std::is_same_v<T, __half>)
            fail(Exit::internal, "matmul: blocks of codes to float16");
          else
            multiply_blocks(blocks_problem_of<T>(p, out, k), work, stream);
        });
    return finish(p, stream);
  }
  if (p.codes) {
    dispatch(
        Family::product, p.out, cost, stream,
        [&]<class T>() { cpu::fp8_gemm(codes_problem_of<T>(p, out, k)); },
        [&]<class T>() {
          gpu_library(stream).gemm.gemm(codes_problem_of<T>(p, out, k), work, stream.handle());
        });
    return finish(p, stream);
  }
  const bool fused = p.a.device() == Device::cuda && is_fused(p);
  dispatch(
      Family::product, p.a, cost, stream,
      [&]<class T>() { cpu::gemm<T>(problem_of<T, T>(p, out, k)); },
      [&]<class T>() {
        const auto multiply = [&]<class C>() {
          gpu_library(stream).gemm.gemm(
              fused ? fused_problem_of<T, C>(p, k) : problem_of<T, C>(p, out, k), work,
              stream.handle());
        };
        if (p.out.dtype() == DType::f32)
          multiply.template operator()<float>();
        else
          multiply.template operator()<T>();
      });
  if (!fused) finish(p, stream);
}

}  // namespace mt
