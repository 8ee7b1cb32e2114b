#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void bias_dropout_add(Tensor y, ConstTensor residual, ConstTensor x, ConstTensor bias,
                      const Dropout& dropout, Stream& stream) {
  const std::int64_t rows = row_count(x), cols = columns(x);
  check_shape("bias_dropout_add", "y", y, x.shape());
  if (residual) check_shape("bias_dropout_add", "residual", residual, x.shape());
  if (bias) check_shape("bias_dropout_add", "bias", bias, {cols});
  dispatch(x, residual ? moves(x, y, residual) : moves(x, y), stream, [&]<class T>() {
    cpu::bias_dropout_add(y.as<T>(), or_null<T>(residual), x.as<T>(), or_null<T>(bias), rows, cols,
                          dropout);
  });
}

void dropout_backward(Tensor dx, ConstTensor dy, const Dropout& dropout, Stream& stream) {
  check_shape("dropout_backward", "dx", dx, dy.shape());
  dispatch(dy, moves(dx, dy), stream, [&]<class T>() {
    cpu::dropout_backward(dx.as<T>(), dy.as<T>(), row_count(dy), columns(dy), dropout);
  });
}

void add(Tensor y, ConstTensor a, ConstTensor b, Stream& stream) {
  check_shape("add", "a", a, y.shape());
  check_shape("add", "b", b, y.shape());
  dispatch(y, moves(y, a, b), stream,
           [&]<class T>() { cpu::add(y.as<T>(), a.as<T>(), b.as<T>(), y.numel()); });
}

void scale(Tensor y, ConstTensor x, double factor, Stream& stream) {
  check_shape("scale", "x", x, y.shape());
  dispatch(y, moves(y, x), stream,
           [&]<class T>() { cpu::scale(y.as<T>(), x.as<T>(), static_cast<T>(factor), y.numel()); });
}

void copy(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("copy", "x", x, y.shape());
  dispatch(y, moves(y, x), stream, [&]<class T>() { std::memmove(y.data(), x.data(), y.bytes()); });
}

void set_zero(Tensor y, Stream& stream) {
  dispatch(y, moves(y), stream, [&]<class T>() { std::memset(y.data(), 0, y.bytes()); });
}

void fill(Tensor y, double value, Stream& stream) {
  dispatch(y, moves(y), stream,
           [&]<class T>() { std::ranges::fill(y.span<T>(), static_cast<T>(value)); });
}

void fill_normal(Tensor y, double std, RandomKey key, Stream& stream) {
  dispatch(y, moves(y), stream,
           [&]<class T>() { cpu::fill_normal(y.as<T>(), 0, y.numel(), 0, std, key); });
}

void fill_uniform(Tensor y, double bound, RandomKey key, Stream& stream) {
  dispatch(y, moves(y), stream,
           [&]<class T>() { cpu::fill_uniform(y.as<T>(), y.numel(), bound, key); });
}

bool all_finite(ConstTensor x, Stream& stream) {
  bool finite = true;
  dispatch(x, moves(x), stream, [&]<class T>() {
    finite = std::ranges::all_of(x.span<T>(), [](T value) { return std::isfinite(value); });
  });
  return finite;
}

void column_sum(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("column_sum", "y", y, {columns(x)});
  dispatch(x, moves(x), stream,
           [&]<class T>() { cpu::column_sum(y.as<T>(), x.as<T>(), row_count(x), columns(x)); });
}

double sum_squares(ConstTensor x, Stream& stream) {
  double sum = 0;
  dispatch(x, moves(x), stream, [&]<class T>() { sum = cpu::sum_squares(x.as<T>(), x.numel()); });
  return sum;
}

std::int64_t count_zeros(ConstTensor x, Stream& stream) {
  std::int64_t count = 0;
  dispatch(x, moves(x), stream, [&]<class T>() { count = std::ranges::count(x.span<T>(), T(0)); });
  return count;
}

double dot(ConstTensor a, ConstTensor b, Stream& stream) {
  check_shape("dot", "b", b, a.shape());
  double sum = 0;
  dispatch(a, moves(a, b), stream,
           [&]<class T>() { sum = cpu::dot(a.as<T>(), b.as<T>(), a.numel()); });
  return sum;
}

}  // namespace mt
