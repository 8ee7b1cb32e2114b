#include "kernels/elementwise.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void layer_norm_forward(Tensor y, Tensor mean, Tensor rstd, ConstTensor x, ConstTensor w,
                        ConstTensor b, double eps, Stream& stream) {
  const std::int64_t cols = columns(x), rows = row_count(x);
  check_shape("layer_norm_forward", "y", y, x.shape());
  check_shape("layer_norm_forward", "rstd", rstd, {rows});
  check_shape("layer_norm_forward", "w", w, {cols});
  dispatch(
      Family::norm, x, moves(x, y), stream,
      [&]<class T>() {
        cpu::layer_norm_forward(y.as<T>(), mean.as<T>(), rstd.as<T>(), x.as<T>(), w.as<T>(),
                                b.as<T>(), rows, cols, eps);
      },
      [&]<class T>() {
        cuda::layer_norm_forward(y.as<T>(), mean.as<float>(), rstd.as<float>(), x.as<T>(),
                                 w.as<T>(), b.as<T>(), rows, cols, eps, stream.handle());
      });
}

static Cost moves_backward(const Tensor& dx, const ConstTensor& residual, const ConstTensor& dy,
                           const ConstTensor& x) {
  return residual ? moves(dx, residual, dy, x) : moves(dx, dy, x);
}

void layer_norm_backward(Tensor dx, Tensor dw, Tensor db, ConstTensor residual, ConstTensor dy,
                         ConstTensor x, ConstTensor mean, ConstTensor rstd, ConstTensor w,
                         Stream& stream) {
  const std::int64_t cols = columns(x), rows = row_count(x);
  if (residual) check_shape("layer_norm_backward", "residual", residual, x.shape());
  check_shape("layer_norm_backward", "dx", dx, x.shape());
  check_shape("layer_norm_backward", "dy", dy, x.shape());
  check_shape("layer_norm_backward", "dw", dw, {cols});
  check_shape("layer_norm_backward", "db", db, {cols});
  void* const work =
      gpu_work(x, stream, [&] { return cuda::layer_norm_backward_work(rows, cols); });
  dispatch(
      Family::norm, x, moves_backward(dx, residual, dy, x), stream,
      [&]<class T>() {
        cpu::layer_norm_backward(dx.as<T>(), dw.as<T>(), db.as<T>(), dy.as<T>(), x.as<T>(),
                                 mean.as<T>(), rstd.as<T>(), w.as<T>(), rows, cols);
        if (residual) cpu::add(dx.as<T>(), dx.as<T>(), residual.as<T>(), dx.numel());
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::layer_norm_backward(dx.as<T>(), dw.as<G>(), db.as<G>(), or_null<T>(residual),
                                    dy.as<T>(), x.as<T>(), mean.as<float>(), rstd.as<float>(),
                                    w.as<T>(), rows, cols, work, stream.handle());
        });
      });
}

void rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, ConstTensor w, double eps,
                      Stream& stream) {
  const std::int64_t cols = columns(x), rows = row_count(x);
  check_shape("rms_norm_forward", "y", y, x.shape());
  check_shape("rms_norm_forward", "rstd", rstd, {rows});
  check_shape("rms_norm_forward", "w", w, {cols});
  dispatch(
      Family::norm, x, moves(x, y), stream,
      [&]<class T>() {
        cpu::rms_norm_forward(y.as<T>(), rstd.as<T>(), x.as<T>(), w.as<T>(), rows, cols, eps);
      },
      [&]<class T>() {
        cuda::rms_norm_forward(y.as<T>(), rstd.as<float>(), x.as<T>(), w.as<T>(), rows, cols, eps,
                               stream.handle());
      });
}

void rms_norm_backward(Tensor dx, Tensor dw, ConstTensor residual, ConstTensor dy, ConstTensor x,
                       ConstTensor rstd, ConstTensor w, Stream& stream) {
  const std::int64_t cols = columns(x), rows = row_count(x);
  if (residual) check_shape("rms_norm_backward", "residual", residual, x.shape());
  check_shape("rms_norm_backward", "dx", dx, x.shape());
  check_shape("rms_norm_backward", "dy", dy, x.shape());
  check_shape("rms_norm_backward", "dw", dw, {cols});
  void* const work = gpu_work(x, stream, [&] { return cuda::rms_norm_backward_work(rows, cols); });
  dispatch(
      Family::norm, x, moves_backward(dx, residual, dy, x), stream,
      [&]<class T>() {
        cpu::rms_norm_backward(dx.as<T>(), dw.as<T>(), dy.as<T>(), x.as<T>(), rstd.as<T>(),
                               w.as<T>(), rows, cols);
        if (residual) cpu::add(dx.as<T>(), dx.as<T>(), residual.as<T>(), dx.numel());
      },
      [&]<class T>() {
        with_gradient_type<T>(dw, [&]<class G>() {
          cuda::rms_norm_backward(dx.as<T>(), dw.as<G>(), or_null<T>(residual), dy.as<T>(),
                                  x.as<T>(), rstd.as<float>(), w.as<T>(), rows, cols, work,
                                  stream.handle());
        });
      });
}

}  // namespace mt
