#include "tensor/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/half.h"
#include "tensor/buffer.h"

namespace mt {

Shape transformed_shape(const Transform& transform, Shape shape) {
  for (const Rearrange& step : transform) {
    switch (step.kind) {
      case Rearrange::Kind::transpose:
        assert(shape.rank() == 2);
        shape = Shape{shape[1], shape[0]};
        break;
      case Rearrange::Kind::rows:
        assert(shape[0] % step.period == 0);
        shape = Shape(shape.extents().subspan(1)).with_front(shape[0] / step.period * step.count);
        break;
      case Rearrange::Kind::sort:
      case Rearrange::Kind::swap:
      case Rearrange::Kind::deal:
        assert(shape[0] % step.period == 0);
        break;
      case Rearrange::Kind::exchange:
        assert(shape[0] % (step.outer * step.inner) == 0);
        break;
      case Rearrange::Kind::scale:
      case Rearrange::Kind::shift:
        break;
      case Rearrange::Kind::reshape:
        assert(shape.numel() == step.shape.numel());
        shape = step.shape;
        break;
    }
  }
  return shape;
}

std::optional<std::pair<std::int64_t, std::int64_t>> consecutive_rows(const Transform& transform,
                                                                      const Shape& shape) {
  if (transform.empty()) return std::pair{std::int64_t{0}, shape[0]};
  const Rearrange& step = transform.front();
  if (transform.size() > 1 || step.kind != Rearrange::Kind::rows || step.period != shape[0])
    return {};
  return std::pair{step.first, step.first + step.count};
}

// What one step does: run (i, j) of its result, where one run follows the other, is the run of its
// source that begins at first + i * i_stride + j * j_stride.  All in elements.
struct Runs {
  std::int64_t is = 1, js = 1, length = 1;
  std::int64_t first = 0, i_stride = 0, j_stride = 0;
};

static Runs runs_of(const Rearrange& step, const Shape& source) {
  const std::int64_t rows = source[0], width = source.numel() / rows;
  switch (step.kind) {
    case Rearrange::Kind::rows:
      return {.is = rows / step.period,
              .length = step.count * width,
              .first = step.first * width,
              .i_stride = step.period * width};
    case Rearrange::Kind::exchange: {
      const std::int64_t run = rows / (step.outer * step.inner) * width;
      return {.is = step.inner,
              .js = step.outer,
              .length = run,
              .i_stride = run,
              .j_stride = step.inner * run};
    }
    case Rearrange::Kind::scale:
    case Rearrange::Kind::shift:
    case Rearrange::Kind::reshape:
      return {.length = source.numel()};
    case Rearrange::Kind::sort:
    case Rearrange::Kind::swap:
    case Rearrange::Kind::deal:
    case Rearrange::Kind::transpose:
      break;
  }
  return {.is = width, .js = rows, .i_stride = 1, .j_stride = width};
}

// Calls body(result, source, bytes) for every run, with the byte at which it begins in each.
template <class Body>
static void for_each_run(const Runs& runs, std::int64_t size, const Body& body) {
  constexpr std::int64_t kBlock = 64;  // a transpose reads and writes whole cache lines
  for (std::int64_t block = 0; block < runs.js; block += kBlock)
    for (std::int64_t i = 0; i < runs.is; ++i)
      for (std::int64_t j = block; j < std::min(runs.js, block + kBlock); ++j)
        body((i * runs.js + j) * runs.length * size,
             (runs.first + i * runs.i_stride + j * runs.j_stride) * size);
}

enum class Way { forward, back };

template <class Count>
static void copy_runs(Way way, const Runs& runs, const Tensor& result, const Tensor& source,
                      Count bytes) {
  auto* const r = static_cast<std::byte*>(result.data());
  auto* const s = static_cast<std::byte*>(source.data());
  const auto size = static_cast<std::int64_t>(size_of(result.dtype()));
  if (way == Way::forward)
    for_each_run(runs, size, [&](auto at, auto from) { std::memcpy(r + at, s + from, bytes); });
  else
    for_each_run(runs, size, [&](auto from, auto at) { std::memcpy(s + at, r + from, bytes); });
}

static void copy(Way way, const Runs& runs, const Tensor& result, const Tensor& source) {
  const std::size_t bytes = static_cast<std::size_t>(runs.length) * size_of(result.dtype());
  const auto of = [&](auto count) { copy_runs(way, runs, result, source, count); };
  switch (bytes) {  // a size that the compiler knows makes a copy one instruction
    case 1:
      return of(std::integral_constant<std::size_t, 1>());
    case 2:
      return of(std::integral_constant<std::size_t, 2>());
    case 4:
      return of(std::integral_constant<std::size_t, 4>());
    case 8:
      return of(std::integral_constant<std::size_t, 8>());
    default:
      return of(bytes);
  }
}

// Exit::bad_data where an element's multiple is beyond the type, or too small for all its bits.
template <class T>
static void multiply(const Tensor& tensor, double factor) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto by = static_cast<Wide>(factor);
  T* const values = static_cast<T*>(tensor.data());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto before = static_cast<Wide>(values[i]);
    values[i] = T(before * by);
    if (static_cast<Wide>(values[i]) / by != before && !std::isnan(before))
      fail(Exit::bad_data, name_of(tensor.dtype()), " does not hold ", before, " times ", factor);
  }
}

static void multiply(const Tensor& tensor, double factor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return multiply<float>(tensor, factor);
    case DType::f64:
      return multiply<double>(tensor, factor);
    case DType::f16:
      return multiply<Fp16>(tensor, factor);
    case DType::bf16:
      return multiply<Bf16>(tensor, factor);
    default:
      fail(Exit::internal, name_of(tensor.dtype()), " cannot be scaled");
  }
}

// Adds a number to every element; a sum that does not fit is rounded.
template <class T>
static void add_to_all(const Tensor& tensor, double by) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (T& value :
       std::span(static_cast<T*>(tensor.data()), static_cast<std::size_t>(tensor.numel())))
    value = T(static_cast<Wide>(value) + static_cast<Wide>(by));
}

static void add_to_all(const Tensor& tensor, double by) {
  switch (tensor.dtype()) {
    case DType::f32:
      return add_to_all<float>(tensor, by);
    case DType::f64:
      return add_to_all<double>(tensor, by);
    case DType::f16:
      return add_to_all<Fp16>(tensor, by);
    case DType::bf16:
      return add_to_all<Bf16>(tensor, by);
    default:
      fail(Exit::internal, name_of(tensor.dtype()), " is not shifted");
  }
}

static void take_sorted(Way way, const Rearrange& step, const Tensor& result,
                        const Tensor& source) {
  const std::int64_t runs = source.shape()[0] / step.period;
  std::int64_t begin = 0, at = 0;
  for (const std::int64_t count : {step.first, step.count, step.period - step.first - step.count}) {
    copy(way, runs_of(pick_rows(step.period, begin, count), source.shape()),
         result.rows(at, at + runs * count), source);
    begin += count;
    at += runs * count;
  }
}

// Each of the two is read for the other's place; what stands around them stays.
static void take_swapped(Way way, const Rearrange& step, const Tensor& result,
                         const Tensor& source) {
  const std::int64_t runs = source.shape()[0] / step.period, second = step.first + step.count,
                     rest = second + step.count;
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t begin = run * step.period;
    const auto move = [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      const Tensor moved = source.rows(begin + from, begin + from + count);
      copy(way, {.length = moved.numel()}, result.rows(begin + to, begin + to + count), moved);
    };
    move(0, 0, step.first);
    move(step.first, second, step.count);
    move(second, step.first, step.count);
    move(rest, rest, step.period - rest);
  }
}

// Runs of the result are picked, as those of a source are by a sort.
static void deal(Way way, const Rearrange& step, const Tensor& result, const Tensor& source) {
  const std::int64_t runs = result.shape()[0] / step.period;
  std::int64_t begin = 0, at = 0;
  for (const std::int64_t count : step.parts) {
    copy(way == Way::forward ? Way::back : Way::forward,
         runs_of(pick_rows(step.period, begin, count), result.shape()),
         source.rows(at, at + runs * count), result);
    begin += count;
    at += runs * count;
  }
}

static void take(Way way, const Rearrange& step, const Tensor& result, const Tensor& source) {
  if (step.kind == Rearrange::Kind::deal) return deal(way, step, result, source);
  if (step.kind == Rearrange::Kind::sort) return take_sorted(way, step, result, source);
  if (step.kind == Rearrange::Kind::swap) return take_swapped(way, step, result, source);
  copy(way, runs_of(step, source.shape()), result, source);
  const bool back = way == Way::back;
  if (step.kind == Rearrange::Kind::shift)
    return add_to_all(back ? source : result, back ? -step.factor : step.factor);
  if (step.kind != Rearrange::Kind::scale) return;
  multiply(way == Way::forward ? result : source,
           way == Way::forward ? step.factor : 1 / step.factor);
}

// The results of all steps but the last are kept aside.  On the way back they are first made from
// `ours`, for the elements of which `theirs` has none.
static void run(Way way, std::span<const Rearrange> steps, const Tensor& theirs,
                const Tensor& ours) {
  if (ours.numel() == 0) return;
  if (steps.empty()) return copy(way, {.length = ours.numel()}, theirs, ours);
  if (steps.size() == 1) return take(way, steps[0], theirs, ours);
  const Shape shape = transformed_shape({steps[0]}, ours.shape());
  const Buffer aside(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(ours.dtype()));
  const Tensor between = aside.tensor(ours.dtype(), shape);
  take(Way::forward, steps[0], between, ours);
  run(way, steps.subspan(1), theirs, between);
  if (way == Way::back) take(way, steps[0], between, ours);
}

static void check(const Transform& transform, const ConstTensor& theirs, const ConstTensor& ours) {
  if (theirs.dtype() != ours.dtype() ||
      !(transformed_shape(transform, ours.shape()) == theirs.shape()))
    fail(Exit::internal, "a transform of ", name_of(ours.dtype()), ours.shape(), " gives no ",
         name_of(theirs.dtype()), theirs.shape());
}

static Tensor writable(const ConstTensor& tensor) {  // it is the way that says what is written
  return {const_cast<void*>(tensor.data()), tensor.dtype(), tensor.shape()};
}

void apply(const Transform& transform, Tensor theirs, ConstTensor ours) {
  check(transform, theirs, ours);
  run(Way::forward, transform, theirs, writable(ours));
}

void apply_inverse(const Transform& transform, Tensor ours, ConstTensor theirs) {
  check(transform, theirs, ours);
  run(Way::back, transform, writable(theirs), ours);
}

}  // namespace mt
