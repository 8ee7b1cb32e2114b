#include "kernels/row_scale.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void row_squares(Tensor squares, ConstTensor x, Stream& stream) {
  check_shape("row_squares", "squares", squares, {x.shape()[0]});
  const std::int64_t rows = row_count(x), cols = columns(x);
  dispatch(
      Family::norm, x, moves(x), stream,
      [&]<class T>() { cpu::row_squares(squares.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::row_squares(squares.as<float>(), x.as<T>(), rows, cols, stream.handle());
      });
}

void row_factors(Tensor factor, ConstTensor m, ConstTensor squares, const RowBlock& block,
                 Stream& stream) {
  check_shape("row_factors", "squares", squares, factor.shape());
  dispatch(
      Family::elementwise, m, moves(m), stream,
      [&]<class T>() {
        cpu::row_factors(factor.as<T>(), m.as<T>(), squares.as<T>(), m.numel(), block);
      },
      [&]<class T>() {
        cuda::row_factors(factor.as<float>(), m.as<T>(), squares.as<float>(), m.numel(), block,
                          stream.handle());
      });
}

void scale_rows(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream) {
  check_shape("scale_rows", "y", y, x.shape());
  check_shape("scale_rows", "factor", factor, {x.shape()[0]});
  const std::int64_t rows = row_count(x), cols = columns(x);
  dispatch(
      Family::elementwise, x, moves(y, x), stream,
      [&]<class T>() { cpu::scale_rows(y.as<T>(), x.as<T>(), factor.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::scale_rows(y.as<T>(), x.as<T>(), factor.as<float>(), rows, cols, stream.handle());
      });
}

void scale_columns(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream) {
  const std::int64_t rows = row_count(x), cols = columns(x);
  check_shape("scale_columns", "y", y, x.shape());
  check_shape("scale_columns", "factor", factor, {cols});
  dispatch(
      Family::elementwise, x, moves(y, x), stream,
      [&]<class T>() { cpu::scale_columns(y.as<T>(), x.as<T>(), factor.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::scale_columns(y.as<T>(), x.as<T>(), factor.as<T>(), rows, cols, stream.handle());
      });
}

void multiply(Tensor y, ConstTensor a, ConstTensor b, Stream& stream) {
  check_shape("multiply", "a", a, y.shape());
  check_shape("multiply", "b", b, y.shape());
  dispatch(
      Family::elementwise, y, moves(y, a, b), stream,
      [&]<class T>() { cpu::multiply(y.as<T>(), a.as<T>(), b.as<T>(), y.numel()); },
      [&]<class T>() {
        cuda::multiply(y.as<T>(), a.as<T>(), b.as<T>(), y.numel(), stream.handle());
      });
}

void add_over_norms(Tensor dm, ConstTensor total, ConstTensor squares, const RowBlock& block,
                    Stream& stream) {
  check_shape("add_over_norms", "squares", squares, total.shape());
  dispatch(
      Family::elementwise, dm, moves(dm), stream,
      [&]<class T>() {
        cpu::add_over_norms(dm.as<T>(), total.as<T>(), squares.as<T>(), dm.numel(), block);
      },
      [&]<class T>() {
        if constexpr (!std::is_same_v<T, __half>)
          cuda::add_over_norms(dm.as<T>(), total.as<float>(), squares.as<float>(), dm.numel(),
                               block, stream.handle());
      });
}

}  // namespace mt
