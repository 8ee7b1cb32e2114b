#include "kernels/embedding.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void embedding_forward(Tensor y, ConstTensor ids, ConstTensor table, std::int64_t first,
                       bool accumulate, Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(table);
  const WordRange words{first, table.shape()[0]};
  check_shape("embedding_forward", "y", y, {rows, cols});
  dispatch(
      Family::embedding, y, {.bytes = 2.0 * static_cast<double>(y.bytes())}, stream,
      [&]<class T>() {
        cpu::embedding_forward(y.as<T>(), ids.as<std::int32_t>(), table.as<T>(), rows, cols, words,
                               accumulate);
      },
      [&]<class T>() {
        cuda::embedding_forward(y.as<T>(), ids.as<std::int32_t>(), table.as<T>(), rows, cols, words,
                                accumulate, stream.handle());
      });
}

void embedding_backward(Tensor dtable, ConstTensor ids, ConstTensor dy, std::int64_t first,
                        Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(dtable);
  const WordRange words{first, dtable.shape()[0]};
  check_shape("embedding_backward", "dy", dy, {rows, cols});
  void* const work =
      gpu_work(dy, stream, [&] { return cuda::embedding_backward_work(rows, cols); });
  dispatch(
      Family::embedding, dy, {.bytes = 3.0 * static_cast<double>(dy.bytes())}, stream,
      [&]<class T>() {
        cpu::embedding_backward(dtable.as<T>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols,
                                words);
      },
      [&]<class T>() {
        with_gradient_type<T>(dtable, [&]<class G>() {
          cuda::embedding_backward(dtable.as<G>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols,
                                   words, work, stream.handle());
        });
      });
}

}  // namespace mt
