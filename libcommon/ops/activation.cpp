#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void gelu_forward(Tensor y, ConstTensor x, GeluForm form, Stream& stream) {
  check_shape("gelu_forward", "y", y, x.shape());
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::gelu_forward(y.as<T>(), x.as<T>(), x.numel(), form); },
      [&]<class T>() {
        cuda::gelu_forward(y.as<T>(), x.as<T>(), x.numel(), form, stream.handle());
      });
}

void gelu_backward(Tensor dx, ConstTensor dy, ConstTensor x, GeluForm form, Stream& stream) {
  check_shape("gelu_backward", "dx", dx, x.shape());
  check_shape("gelu_backward", "dy", dy, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::gelu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel(), form); },
      [&]<class T>() {
        cuda::gelu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel(), form, stream.handle());
      });
}

void relu_forward(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("relu_forward", "y", y, x.shape());
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::relu_forward(y.as<T>(), x.as<T>(), x.numel()); },
      [&]<class T>() { cuda::relu_forward(y.as<T>(), x.as<T>(), x.numel(), stream.handle()); });
}

void relu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream) {
  check_shape("relu_backward", "dx", dx, x.shape());
  check_shape("relu_backward", "dy", dy, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::relu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel()); },
      [&]<class T>() {
        cuda::relu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel(), stream.handle());
      });
}

void squared_relu_forward(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("squared_relu_forward", "y", y, x.shape());
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::squared_relu_forward(y.as<T>(), x.as<T>(), x.numel()); },
      [&]<class T>() {
        cuda::squared_relu_forward(y.as<T>(), x.as<T>(), x.numel(), stream.handle());
      });
}

void squared_relu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream) {
  check_shape("squared_relu_backward", "dx", dx, x.shape());
  check_shape("squared_relu_backward", "dy", dy, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::squared_relu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel()); },
      [&]<class T>() {
        cuda::squared_relu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), x.numel(), stream.handle());
      });
}

void tanh_forward(Tensor y, ConstTensor x, Stream& stream) {
  check_shape("tanh_forward", "y", y, x.shape());
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::tanh_forward(y.as<T>(), x.as<T>(), x.numel()); },
      [&]<class T>() { cuda::tanh_forward(y.as<T>(), x.as<T>(), x.numel(), stream.handle()); });
}

void tanh_backward(Tensor dx, ConstTensor dy, ConstTensor y, Stream& stream) {
  check_shape("tanh_backward", "dx", dx, y.shape());
  check_shape("tanh_backward", "dy", dy, y.shape());
  dispatch(
      Family::activation, y, moves(y, dy, dx), stream,
      [&]<class T>() { cpu::tanh_backward(dx.as<T>(), dy.as<T>(), y.as<T>(), y.numel()); },
      [&]<class T>() {
        cuda::tanh_backward(dx.as<T>(), dy.as<T>(), y.as<T>(), y.numel(), stream.handle());
      });
}

void swiglu_forward(Tensor y, ConstTensor x, Stream& stream) {
  const std::int64_t rows = row_count(y), cols = columns(y);
  check_shape("swiglu_forward", "x", x, {rows, 2 * cols});
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::swiglu_forward(y.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() { cuda::swiglu_forward(y.as<T>(), x.as<T>(), rows, cols, stream.handle()); });
}

void swiglu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream) {
  const std::int64_t rows = row_count(dy), cols = columns(dy);
  check_shape("swiglu_backward", "x", x, {rows, 2 * cols});
  check_shape("swiglu_backward", "dx", dx, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::swiglu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::swiglu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols, stream.handle());
      });
}

void geglu_forward(Tensor y, ConstTensor x, Stream& stream) {
  const std::int64_t rows = row_count(y), cols = columns(y);
  check_shape("geglu_forward", "x", x, {rows, 2 * cols});
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::geglu_forward(y.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() { cuda::geglu_forward(y.as<T>(), x.as<T>(), rows, cols, stream.handle()); });
}

void geglu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream) {
  const std::int64_t rows = row_count(dy), cols = columns(dy);
  check_shape("geglu_backward", "x", x, {rows, 2 * cols});
  check_shape("geglu_backward", "dx", dx, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::geglu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols); },
      [&]<class T>() {
        cuda::geglu_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols, stream.handle());
      });
}

void clamped_forward(Tensor y, ConstTensor x, const ClampedGate& of, Stream& stream) {
  const std::int64_t rows = row_count(y), cols = columns(y);
  check_shape("clamped_forward", "x", x, {rows, 2 * cols});
  dispatch(
      Family::activation, x, moves(x, y), stream,
      [&]<class T>() { cpu::clamped_forward(y.as<T>(), x.as<T>(), rows, cols, of); },
      [&]<class T>() {
        cuda::clamped_forward(y.as<T>(), x.as<T>(), rows, cols, of, stream.handle());
      });
}

void clamped_backward(Tensor dx, ConstTensor dy, ConstTensor x, const ClampedGate& of,
                      Stream& stream) {
  const std::int64_t rows = row_count(dy), cols = columns(dy);
  check_shape("clamped_backward", "x", x, {rows, 2 * cols});
  check_shape("clamped_backward", "dx", dx, x.shape());
  dispatch(
      Family::activation, x, moves(x, dy, dx), stream,
      [&]<class T>() { cpu::clamped_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols, of); },
      [&]<class T>() {
        cuda::clamped_backward(dx.as<T>(), dy.as<T>(), x.as<T>(), rows, cols, of, stream.handle());
      });
}

}  // namespace mt
