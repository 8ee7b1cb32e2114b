#include "kernels/embedding.h"

#include "kernels/cross_entropy.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void embedding_forward(Tensor y, ConstTensor ids, ConstTensor table, bool accumulate,
                       Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(table);
  check_shape("embedding_forward", "y", y, {rows, cols});
  dispatch(
      y, {.bytes = 2.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::embedding_forward(y.as<T>(), ids.as<std::int32_t>(), table.as<T>(), rows, cols,
                               accumulate);
      },
      [&]<class T>() {
        cuda::embedding_forward(y.as<T>(), ids.as<std::int32_t>(), table.as<T>(), rows, cols,
                                accumulate, stream.handle());
      });
}

void embedding_backward(Tensor dtable, ConstTensor ids, ConstTensor dy, Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(dtable);
  check_shape("embedding_backward", "dy", dy, {rows, cols});
  void* const work =
      gpu_work(dy, stream, [&] { return cuda::embedding_backward_work(rows, cols); });
  dispatch(
      dy, {.bytes = 3.0 * static_cast<double>(dy.bytes())}, stream,
      [&]<class T>() {
        cpu::embedding_backward(dtable.as<T>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols);
      },
      [&]<class T>() {
        cuda::embedding_backward(dtable.as<float>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols,
                                 dtable.shape()[0], work, stream.handle());
      });
}

void cross_entropy(Tensor loss, Tensor logits, ConstTensor labels, ConstTensor row_weight,
                   double smoothing, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], vocab = logits.shape()[1];
  check_shape("cross_entropy", "loss", loss, {rows});
  check_shape("cross_entropy", "labels", labels, {rows});
  if (row_weight) check_shape("cross_entropy", "row_weight", row_weight, {rows});
  dispatch(
      logits, {.bytes = (row_weight ? 2.0 : 1.0) * static_cast<double>(logits.bytes())}, stream,
      [&]<class T>() {
        cpu::cross_entropy(loss.as<T>(), logits.as<T>(), labels.as<std::int32_t>(),
                           or_null<T>(row_weight), rows, vocab, smoothing);
      },
      [&]<class T>() {
        cuda::cross_entropy(loss.as<float>(), logits.as<T>(), labels.as<std::int32_t>(),
                            or_null<float>(row_weight), rows, vocab, smoothing, stream.handle());
      });
}

}  // namespace mt
