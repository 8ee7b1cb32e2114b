#include "kernels/gpu.h"
#include "kernels/grouped_gemm.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {
namespace {

using Problems = std::span<const Matmul>;
using Then = Matmul::Then;

const char* address(const ConstTensor& tensor) { return static_cast<const char*>(tensor.data()); }

// Whether each one's rows lie behind those of the one before.
template <class Rows>
bool follow(Problems problems, const Rows& rows) {
  for (std::size_t i = 1; i < problems.size(); ++i) {
    const ConstTensor before = rows(problems[i - 1]);
    if (address(rows(problems[i])) != address(before) + before.bytes()) return false;
  }
  return true;
}

// Elements from each one's matrix to the next one's; 0 where they do not lie evenly.
template <class Matrix>
std::int64_t stride_of(Problems problems, const Matrix& matrix) {
  const ConstTensor first = matrix(problems[0]);
  const std::ptrdiff_t stride = address(matrix(problems[1])) - address(first),
                       element = static_cast<std::ptrdiff_t>(size_of(first.dtype()));
  for (std::size_t i = 1; i < problems.size(); ++i)
    if (address(matrix(problems[i])) - address(matrix(problems[i - 1])) != stride) return 0;
  return stride > 0 && stride % element == 0 ? stride / element : 0;
}

std::vector<std::int64_t> ends_of(Problems problems) {
  std::vector<std::int64_t> ends;
  for (const Matmul& p : problems)
    ends.push_back((ends.empty() ? 0 : ends.back()) + p.a.shape()[0]);
  return ends;
}

// Whether it is a product alone, of the same form as `first`.
bool is_alike(const Matmul& p, const Matmul& first) {
  return p.a.dtype() == DType::bf16 && p.b.dtype() == DType::bf16 && !p.bias && !p.residual &&
         !p.norm.weight && !p.packed && !p.codes && !p.rows_alone &&
         p.transpose_a == first.transpose_a && p.transpose_b == first.transpose_b &&
         p.accumulate == first.accumulate && p.then == first.then &&
         p.out.dtype() == first.out.dtype() && p.out.shape()[1] == first.out.shape()[1] &&
         p.a.shape()[1] == first.a.shape()[1];
}

ConstTensor a_of(const Matmul& p) { return p.a; }
ConstTensor b_of(const Matmul& p) { return p.b; }
ConstTensor out_of(const Matmul& p) { return p.out; }
Tensor product_of(const Matmul& p) { return p.then == Then::swiglu ? p.at : p.out; }

// So many rows from the first one's on.
Tensor rows_of(const Tensor& first, std::int64_t rows) {
  return {first.data(), first.dtype(), {rows, first.shape()[1]}, first.device()};
}

bool multiply_rows(Problems problems, Stream& stream) {
  const Matmul& first = problems[0];
  const bool gated = first.then == Then::swiglu && first.at;
  if (first.accumulate || first.out.dtype() != DType::bf16 ||
      !(first.then == Then::store || gated) || !follow(problems, a_of) ||
      !follow(problems, out_of) || !follow(problems, product_of))
    return false;
  const std::vector<std::int64_t> ends = ends_of(problems);
  const GroupedRows grouped{.c = product_of(first).as<__nv_bfloat16>(),
                            .a = first.a.as<__nv_bfloat16>(),
                            .b = first.b.as<__nv_bfloat16>(),
                            .n = product_of(first).shape()[1],
                            .k = first.a.shape()[1],
                            .stride = stride_of(problems, b_of),
                            .transpose_b = first.transpose_b,
                            .ends = ends};
  if (!cuda::hopper::takes(grouped)) return false;
  {
    const Stream::Working working(stream, Family::product);
    cuda::hopper::grouped_gemm(grouped, stream.handle());
  }
  if (gated && ends.back() > 0)
    swiglu_forward(rows_of(first.out, ends.back()), rows_of(first.at, ends.back()), stream);
  return true;
}

bool add_up_rows(Problems problems, Stream& stream) {
  const Matmul& first = problems[0];
  if (first.then != Then::store || !follow(problems, a_of) || !follow(problems, b_of)) return false;
  const std::vector<std::int64_t> ends = ends_of(problems);
  const auto multiply = [&]<class C>() {
    const GroupedWeights<C> grouped{.c = first.out.as<C>(),
                                    .a = first.a.as<__nv_bfloat16>(),
                                    .b = first.b.as<__nv_bfloat16>(),
                                    .m = first.a.shape()[1],
                                    .n = first.b.shape()[1],
                                    .stride = stride_of(problems, out_of),
                                    .accumulate = first.accumulate,
                                    .ends = ends};
    if (!cuda::hopper::takes(grouped)) return false;
    const Stream::Working working(stream, Family::product);
    cuda::hopper::grouped_gemm(grouped, stream.handle());
    return true;
  };
  return first.out.dtype() == DType::f32 ? multiply.template operator()<float>()
                                         : multiply.template operator()<__nv_bfloat16>();
}

// Makes several in one kernel, if there is one for them.
bool multiply_together([[maybe_unused]] Problems problems, [[maybe_unused]] Stream& stream) {
  if constexpr (kWithCuda && cuda::kHopper) {
    const Matmul& first = problems[0];
    if (problems.size() == 1 || first.a.device() != Device::cuda) return false;
    for (const Matmul& p : problems)
      if (!is_alike(p, first)) return false;
    if (!first.transpose_a) return multiply_rows(problems, stream);
    if (!first.transpose_b) return add_up_rows(problems, stream);
  }
  return false;
}

}  // namespace

void grouped_matmul(Problems problems, Stream& stream) {
  if (problems.empty() || multiply_together(problems, stream)) return;
  for (const Matmul& p : problems) {
    if (p.out.numel() == 0) continue;
    if (p.a.numel() > 0)
      matmul(p, stream);
    else if (!p.accumulate)
      fill(p.out, 0, stream);
  }
}

}  // namespace mt
