#include "kernels/elementwise.h"
#include "kernels/fill_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "ops/check.h"
#include "ops/gpu_library.h"
#include "ops/ops.h"

namespace mt {

void bias_dropout_add(Tensor y, ConstTensor residual, ConstTensor x, ConstTensor bias,
                      const Dropout& dropout, Stream& stream) {
  const std::int64_t rows = row_count(x), cols = columns(x);
  check_shape("bias_dropout_add", "y", y, x.shape());
  if (residual) check_shape("bias_dropout_add", "residual", residual, x.shape());
  if (bias) check_shape("bias_dropout_add", "bias", bias, {cols});
  dispatch(
      Family::elementwise, x, residual ? moves(x, y, residual) : moves(x, y), stream,
      [&]<class T>() {
        cpu::bias_dropout_add(y.as<T>(), or_null<T>(residual), x.as<T>(), or_null<T>(bias), rows,
                              cols, dropout);
      },
      [&]<class T>() {
        cuda::bias_dropout_add(y.as<T>(), or_null<T>(residual), x.as<T>(), or_null<T>(bias), rows,
                               cols, dropout, stream.handle());
      });
}

void dropout_backward(Tensor dx, ConstTensor dy, const Dropout& dropout, Stream& stream) {
  const std::int64_t rows = row_count(dy), cols = columns(dy);
  check_shape("dropout_backward", "dx", dx, dy.shape());
  dispatch(
      Family::elementwise, dy, moves(dx, dy), stream,
      [&]<class T>() { cpu::dropout_backward(dx.as<T>(), dy.as<T>(), rows, cols, dropout); },
      [&]<class T>() {
        cuda::dropout_backward(dx.as<T>(), dy.as<T>(), rows, cols, dropout, stream.handle());
      });
}

void add(Tensor y, ConstTensor a, ConstTensor b, Stream& stream) {
  check_shape("add", "a", a, y.shape());
  check_shape("add", "b", b, y.shape());
  dispatch(
      Family::elementwise, y, moves(y, a, b), stream,
      [&]<class T>() { cpu::add(y.as<T>(), a.as<T>(), b.as<T>(), y.numel()); },
      [&]<class T>() {
        const auto run = [&]<class B>() {
          cuda::add(y.as<T>(), a.as<T>(), b.as<B>(), y.numel(), stream.handle());
        };
        if (b.dtype() == y.dtype()) return run.template operator()<T>();
        if constexpr (std::is_same_v<T, float>)
          with_gpu_type(b.dtype(), run);
        else
          run.template operator()<float>();
      });
}

void scale(Tensor y, ConstTensor x, double factor, Stream& stream) {
  check_shape("scale", "x", x, y.shape());
  dispatch(
      Family::elementwise, y, moves(y, x), stream,
      [&]<class T>() { cpu::scale(y.as<T>(), x.as<T>(), static_cast<T>(factor), y.numel()); },
      [&]<class T>() {
        cuda::scale(y.as<T>(), x.as<T>(), static_cast<float>(factor), y.numel(), stream.handle());
      });
}

void clamp_forward(Tensor y, ConstTensor x, double bound, Stream& stream) {
  check_shape("clamp_forward", "x", x, y.shape());
  dispatch(
      Family::elementwise, y, moves(y, x), stream,
      [&]<class T>() {
        cpu::clamp_forward(y.as<T>(), x.as<T>(), static_cast<T>(bound), y.numel());
      },
      [&]<class T>() {
        cuda::clamp_forward(y.as<T>(), x.as<T>(), static_cast<float>(bound), y.numel(),
                            stream.handle());
      });
}

void clamp_backward(Tensor dx, ConstTensor dy, ConstTensor x, double bound, Stream& stream) {
  check_shape("clamp_backward", "dy", dy, dx.shape());
  check_shape("clamp_backward", "x", x, dx.shape());
  dispatch(
      Family::elementwise, dx, moves(dx, dy, x), stream,
      [&]<class T>() {
        cpu::clamp_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), static_cast<T>(bound), dx.numel());
      },
      [&]<class T>() {
        cuda::clamp_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), static_cast<float>(bound),
                             dx.numel(), stream.handle());
      });
}

void scale(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream) {
  check_shape("scale", "x", x, y.shape());
  check_shape("scale", "factor", factor, {1});
  dispatch(
      Family::elementwise, y, moves(y, x), stream,
      [&]<class T>() {
        std::ranges::transform(x.span<T>(), y.as<T>(), [by = *factor.as<double>()](T element) {
          return static_cast<T>(static_cast<double>(element) * by);
        });
      },
      [&]<class T>() {
        cuda::scale(y.as<float>(), x.as<float>(), factor.as<double>(), y.numel(), stream.handle());
      });
}

void copy(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("copy", "x", x, y.shape());
  if (y.device() == Device::meta) return stream.count(moves(y, x), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  if (y.dtype() == x.dtype()) return transfer(y, x, stream);
  if (y.device() == Device::cpu) fail(Exit::internal, "copy: another type on the CPU");
  if constexpr (kWithCuda)
    with_gpu_type(y.dtype(), [&]<class To>() {
      with_gpu_type(x.dtype(), [&]<class From>() {
        if constexpr (!std::is_same_v<To, From>)
          cuda::convert(y.as<To>(), x.as<From>(), y.numel(), stream.handle());
      });
    });
}

void transfer(Tensor y, ConstTensor x, Stream& stream) {
  if (y.bytes() != x.bytes())
    fail(Exit::internal, "transfer: ", x.bytes(), " bytes to ", y.bytes());
  if (stream.device() == Device::meta) return;
  const Stream::Call call(stream);
  if (stream.device() == Device::cpu)
    std::memmove(y.data(), x.data(), y.bytes());
  else
    device::copy(y.data(), x.data(), y.bytes(), stream.handle());
}

void swap_axes(Tensor y, ConstTensor x, std::int64_t a, std::int64_t b, Stream& stream) {
  if (y.bytes() != x.bytes() || x.numel() % (a * b) != 0 || size_of(x.dtype()) < 2)
    fail(Exit::internal, "swap_axes: ", x.shape(), " to ", y.shape(), " by ", a, " and ", b);
  if (x.device() == Device::meta) return stream.count(moves(y, x), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  const std::int64_t run = static_cast<std::int64_t>(x.bytes()) / (a * b);
  if constexpr (kWithCuda)
    if (x.device() == Device::cuda)
      return cuda::swap_axes(y.data(), x.data(), a, b, run, stream.handle());
  auto* const to = static_cast<std::byte*>(y.data());
  const auto* const from = static_cast<const std::byte*>(x.data());
  for (std::int64_t i = 0; i < a; ++i)
    for (std::int64_t j = 0; j < b; ++j)
      std::memcpy(to + (j * a + i) * run, from + (i * b + j) * run, static_cast<std::size_t>(run));
}

void set_zero(Tensor y, Stream& stream) {
  if (y.device() == Device::meta) return stream.count(moves(y), Family::elementwise);
  const Stream::Working working(stream, Family::elementwise);
  if (y.device() == Device::cuda) return device::set_zero(y.data(), y.bytes(), stream.handle());
  stream.run([&] { std::memset(y.data(), 0, y.bytes()); });
}

void fill(Tensor y, double value, Stream& stream) {
  dispatch(
      Family::elementwise, y, moves(y), stream,
      [&]<class T>() { std::ranges::fill(y.span<T>(), static_cast<T>(value)); },
      [&]<class T>() { cuda::fill(y.as<T>(), value, y.numel(), stream.handle()); });
}

// cpu(to, run) or gpu(to, run) for each run of a rank's part.
template <class Cpu, class Gpu>
static void fill_random(Tensor y, std::span<const ElementRun> runs, Stream& stream, const Cpu& cpu,
                        const Gpu& gpu) {
  const Tensor all = y.reshape({y.numel()});
  const auto place = [&](const ElementRun& run) {
    return all.rows(run.local, run.local + run.count);
  };
  dispatch(
      Family::elementwise, y, moves(y), stream,
      [&]<class T>() {
        for (const ElementRun& run : runs) cpu(place(run).template as<T>(), run);
      },
      [&]<class T>() {
        for (const ElementRun& run : runs) gpu(place(run).template as<T>(), run);
      });
}

void fill_normal(Tensor y, double std, RandomKey key, std::span<const ElementRun> runs,
                 Stream& stream) {
  fill_random(
      y, runs, stream,
      [&](auto* to, const ElementRun& run) {
        cpu::fill_normal(to, run.global, run.count, 0, std, key);
      },
      [&](auto* to, const ElementRun& run) {
        cuda::fill_normal(to, run.global, run.count, 0, std, key, stream.handle());
      });
}

void fill_uniform(Tensor y, double bound, RandomKey key, std::span<const ElementRun> runs,
                  Stream& stream) {
  fill_random(
      y, runs, stream,
      [&](auto* to, const ElementRun& run) {
        cpu::fill_uniform(to, run.global, run.count, bound, key);
      },
      [&](auto* to, const ElementRun& run) {
        cuda::fill_uniform(to, run.global, run.count, bound, key, stream.handle());
      });
}

void column_sum(Tensor y, ConstTensor x, Stream& stream) {
  const std::int64_t rows = row_count(x), cols = columns(x);
  check_shape("column_sum", "y", y, {cols});
  void* const work = gpu_work(x, stream, [&] { return cuda::column_sum_work(rows, cols); });
  dispatch(
      Family::elementwise, x, moves(x), stream,
      [&]<class T>() { cpu::column_sum(y.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          if (y.dtype() == DType::bf16)
            return cuda::column_sum(y.as<__nv_bfloat16>(), x.as<T>(), rows, cols, work,
                                    stream.handle());
        with_gradient_type<T>(y, [&]<class G>() {
          cuda::column_sum(y.as<G>(), x.as<T>(), rows, cols, work, stream.handle());
        });
      });
}

// A number that a kernel leaves in front of its scratch, on the host: waits for it.
template <class Result, class Queue>
static Result fetch(const ConstTensor& x, Stream& stream, const Queue& queue) {
  constexpr std::size_t kFront = 256;
  auto* const front = static_cast<std::byte*>(
      gpu_work(x, stream, [&] { return kFront + cuda::sum_work(x.numel()); }));
  queue(reinterpret_cast<Result*>(front), front + kFront);
  Result result = {};
  device::copy(&result, front, sizeof result, stream.handle());
  stream.synchronize();
  return result;
}

bool all_finite(ConstTensor x, Stream& stream) {
  bool finite = true;
  dispatch(
      Family::elementwise, x, moves(x), stream,
      [&]<class T>() {
        finite = std::ranges::all_of(x.span<T>(), [](T value) { return std::isfinite(value); });
      },
      [&]<class T>() {
        finite = fetch<std::int32_t>(x, stream, [&](std::int32_t* out, void* work) {
          cuda::all_finite(out, x.as<T>(), x.numel(), work, stream.handle());
        });
      });
  return finite;
}

void add_up(Tensor sum, ConstTensor x, Stream& stream) {
  check_shape("add_up", "sum", sum, {1});
  if (x.device() == Device::meta) return;
  const Stream::Working working(stream, Family::elementwise);
  if constexpr (kWithCuda)
    if (x.device() == Device::cuda)
      return cuda::add_up(sum.as<double>(), x.as<double>(), x.numel(), stream.handle());
  const auto numbers = x.span<double>();
  *sum.as<double>() = std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

// sum = what cpu.operator()<T>(x) returns, or gpu.operator()<T>(out, x, work) puts at `out`, for
// each x, after before(i).
template <class Cpu, class Gpu>
static void sum_over(const Tensor& sum, std::span<const ConstTensor> parts, Stream& stream,
                     const Cpu& cpu, const Gpu& gpu,
                     const std::function<void(std::size_t)>& before = {}) {
  const Shape shape{std::ssize(parts)};
  std::vector<double> here(stream.device() == Device::cuda ? 0 : parts.size());
  Tensor numbers(here.data(), DType::f64, shape, stream.device());
  std::byte* work = nullptr;
  if constexpr (kWithCuda)
    if (stream.device() == Device::cuda) {
      const std::size_t bytes = (numbers.bytes() + 255) / 256 * 256;
      std::size_t most = 0;
      for (const ConstTensor& x : parts) most = std::max(most, cuda::sum_work(x.numel()));
      numbers = Tensor(stream.work(bytes + most), DType::f64, shape, Device::cuda);
      work = static_cast<std::byte*>(numbers.data()) + bytes;
    }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (before) before(i);
    double* const number = numbers.as<double>() + i;
    dispatch(
        Family::elementwise, parts[i], moves(parts[i]), stream,
        [&]<class T>() { *number = cpu.template operator()<T>(parts[i]); },
        [&]<class T>() { gpu.template operator()<T>(number, parts[i], work); });
  }
  add_up(sum, numbers, stream);
}

void sum_squares(Tensor sum, std::span<const ConstTensor> parts, Stream& stream,
                 const std::function<void(std::size_t)>& before) {
  sum_over(
      sum, parts, stream,
      []<class T>(const ConstTensor& x) { return cpu::sum_squares(x.as<T>(), x.numel()); },
      [&]<class T>(double* out, const ConstTensor& x, void* work) {
        cuda::sum_squares(out, x.as<T>(), x.numel(), work, stream.handle());
      },
      before);
}

void count_zeros(Tensor sum, std::span<const ConstTensor> parts, Stream& stream) {
  sum_over(
      sum, parts, stream,
      []<class T>(const ConstTensor& x) {
        return static_cast<double>(std::ranges::count(x.span<T>(), T(0)));
      },
      [&]<class T>(double* out, const ConstTensor& x, void* work) {
        cuda::count_zeros(out, x.as<T>(), x.numel(), work, stream.handle());
      });
}

double sum_squares(std::span<const ConstTensor> parts, Stream& stream) {
  double sum = 0;
  const Tensor here(&sum, DType::f64, {1});
  if constexpr (kWithCuda)
    if (stream.device() == Device::cuda) {
      Buffer& number = gpu_library(stream).number;
      if (number.bytes() == 0) number = Buffer(Device::cuda, sizeof sum);
      const Tensor there = number.tensor(DType::f64, {1});
      sum_squares(there, parts, stream);
      transfer(here, there, stream);
      stream.synchronize();
      return sum;
    }
  sum_squares(here, parts, stream);
  return sum;
}

void dot(Tensor sum, ConstTensor a, ConstTensor b, Stream& stream) {
  check_shape("dot", "b", b, a.shape());
  check_shape("dot", "sum", sum, {1});
  void* const work = gpu_work(a, stream, [&] { return cuda::sum_work(a.numel()); });
  dispatch(
      Family::elementwise, a, moves(a, b), stream,
      [&]<class T>() { *sum.as<double>() = cpu::dot(a.as<T>(), b.as<T>(), a.numel()); },
      [&]<class T>() {
        cuda::dot(sum.as<double>(), a.as<float>(), b.as<float>(), a.numel(), work, stream.handle());
      });
}

}  // namespace mt
