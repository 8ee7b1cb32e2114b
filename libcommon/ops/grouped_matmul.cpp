#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/gpu.h"
#include "kernels/grouped_gemm.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {
namespace {

using Problems = std::span<const Matmul>;

const char* address(const ConstTensor& tensor) { return static_cast<const char*>(tensor.data()); }

// What lies a matrix a problem, where the other two lie row behind row.
bool sums_rows(const Matmul& p) { return p.transpose_a; }
ConstTensor matrix_of(const Matmul& p) { return sums_rows(p) ? p.out : p.b; }

std::ptrdiff_t bytes_between(const Matmul& p, const Matmul& next) {
  return address(matrix_of(next)) - address(matrix_of(p));
}

// Whether it is a product of bf16 alone, of its right form.
bool is_plain(const Matmul& p) {
  const bool has_form =
      sums_rows(p) ? !p.transpose_b : !p.accumulate && p.out.dtype() == DType::bf16;
  return has_form && p.a.dtype() == DType::bf16 && p.b.dtype() == DType::bf16 &&
         p.then == Matmul::Then::store && !p.bias && !p.residual && !p.norm.weight && !p.packed &&
         !p.tiles && !p.codes && !p.rows_alone;
}

// Whether the next one is alike, and its rows lie behind those of p.
bool follows(const Matmul& next, const Matmul& p) {
  const bool counted = static_cast<bool>(p.group);
  if (counted ? next.group.number != p.group.number + 1 : static_cast<bool>(next.group))
    return false;
  const auto behind = [&](const ConstTensor& rows, const ConstTensor& before) {
    return address(rows) == address(before) + (counted ? 0 : before.bytes());
  };
  return is_plain(next) && next.transpose_a == p.transpose_a && next.transpose_b == p.transpose_b &&
         next.accumulate == p.accumulate && next.out.dtype() == p.out.dtype() &&
         next.a.shape()[1] == p.a.shape()[1] && next.b.shape()[1] == p.b.shape()[1] &&
         next.out.shape()[1] == p.out.shape()[1] && behind(next.a, p.a) &&
         (sums_rows(p) ? behind(next.b, p.b) : behind(next.out, p.out));
}

// How many of the first are alike, and have matrices that lie evenly.
std::size_t even_run(Problems problems) {
  std::size_t count = 1;
  if (!is_plain(problems[0])) return count;
  while (count < problems.size() && follows(problems[count], problems[count - 1]) &&
         (count == 1 || bytes_between(problems[count - 1], problems[count]) ==
                            bytes_between(problems[0], problems[1])))
    ++count;
  return count;
}

void check_shapes(const Matmul& p) {
  const std::int64_t rows = p.a.shape()[0], k = p.a.shape()[1], n = p.out.shape()[1];
  check_shape("grouped_matmul", "b", p.b,
              sums_rows(p)    ? Shape{rows, n}
              : p.transpose_b ? Shape{n, k}
                              : Shape{k, n});
  check_shape("grouped_matmul", "out", p.out, {sums_rows(p) ? k : rows, n});
}

// Makes a run in one kernel, if there is one for it.
template <class Grouped>
bool multiply_run(const Grouped& grouped, Stream& stream) {
  if (!cuda::hopper::takes(grouped)) return false;
  const Stream::Working working(stream, Family::product);
  cuda::hopper::grouped_gemm(grouped, stream.handle());
  return true;
}

[[maybe_unused]] GroupEnds counted_ends(Problems run) {
  const auto& [ends, first] = run[0].group;
  const std::int64_t groups = std::ssize(run);
  if (first + groups > ends.numel())
    fail(Exit::internal, "grouped_matmul: group ", first + groups - 1, " of ", ends.numel());
  return {.there = ends.as<std::int32_t>() + first,
          .groups = groups,
          .rows = run[0].a.shape()[0],
          .from_zero = first == 0};
}

bool multiply_together([[maybe_unused]] Problems run, [[maybe_unused]] Stream& stream) {
  if constexpr (kWithCuda && cuda::kHopper) {
    const Matmul& p = run[0];
    if ((run.size() == 1 && !p.group) || p.a.device() != Device::cuda) return false;
    std::vector<std::int64_t> here;
    for (const Matmul& one : run) {
      check_shapes(one);
      here.push_back((here.empty() ? 0 : here.back()) + one.a.shape()[0]);
    }
    const GroupEnds ends = p.group ? counted_ends(run) : GroupEnds{.here = here};
    const std::int64_t stride =
        run.size() == 1
            ? matrix_of(p).numel()
            : bytes_between(p, run[1]) / static_cast<std::ptrdiff_t>(size_of(matrix_of(p).dtype()));
    const auto* const a = p.a.as<__nv_bfloat16>();
    const auto* const b = p.b.as<__nv_bfloat16>();
    const std::int64_t n = p.out.shape()[1], k = p.a.shape()[1];
    if (!sums_rows(p))
      return multiply_run(
          GroupedRows{p.out.as<__nv_bfloat16>(), a, b, n, k, stride, p.transpose_b, ends}, stream);
    const auto weights = [&]<class C>() {
      return multiply_run(GroupedWeights<C>{p.out.as<C>(), a, b, k, n, stride, p.accumulate, ends},
                          stream);
    };
    return p.out.dtype() == DType::f32 ? weights.template operator()<float>()
                                       : weights.template operator()<__nv_bfloat16>();
  }
  return false;
}

}  // namespace

bool counts_groups([[maybe_unused]] Device device, [[maybe_unused]] DType dtype,
                   [[maybe_unused]] std::int64_t groups,
                   [[maybe_unused]] std::initializer_list<std::int64_t> widths) {
  if constexpr (kWithCuda && cuda::kHopper)
    return device == Device::cuda && dtype == DType::bf16 && groups <= kMostGroups &&
           cuda::hopper_kernels() &&
           std::ranges::all_of(widths, [](std::int64_t width) { return width % 8 == 0; });
  return false;
}

void grouped_matmul(Problems problems, Stream& stream) {
  while (!problems.empty()) {
    const Problems run = problems.first(even_run(problems));
    problems = problems.subspan(run.size());
    if (multiply_together(run, stream)) continue;
    if (run[0].group)
      fail(Exit::internal, "grouped_matmul: no kernel for rows that are counted on the device");
    for (const Matmul& p : run) {
      if (p.out.numel() == 0) continue;
      if (p.a.numel() > 0)
        matmul(p, stream);
      else if (!p.accumulate)
        fill(p.out, 0, stream);
    }
  }
}

}  // namespace mt
