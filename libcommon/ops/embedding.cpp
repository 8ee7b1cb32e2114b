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
      Family::embedding, y, {.bytes = 2.0 * static_cast<double>(y.bytes())}, stream,
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
      Family::embedding, dy, {.bytes = 3.0 * static_cast<double>(dy.bytes())}, stream,
      [&]<class T>() {
        cpu::embedding_backward(dtable.as<T>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols);
      },
      [&]<class T>() {
        cuda::embedding_backward(dtable.as<float>(), ids.as<std::int32_t>(), dy.as<T>(), rows, cols,
                                 dtable.shape()[0], work, stream.handle());
      });
}

void embedding_part_forward(Tensor y, ConstTensor ids, ConstTensor table, std::int64_t first,
                            Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(table);
  check_shape("embedding_part_forward", "y", y, {rows, cols});
  dispatch_cpu(Family::embedding, "embedding_part_forward", y,
               {.bytes = 2.0 * static_cast<double>(y.bytes())}, stream, [&]<class T>() {
                 cpu::embedding_part_forward(y.as<T>(), ids.as<std::int32_t>(), table.as<T>(), rows,
                                             cols, first, table.shape()[0]);
               });
}

void embedding_part_backward(Tensor dtable, ConstTensor ids, ConstTensor dy, std::int64_t first,
                             Stream& stream) {
  const std::int64_t rows = ids.numel(), cols = columns(dtable);
  check_shape("embedding_part_backward", "dy", dy, {rows, cols});
  dispatch_cpu(Family::embedding, "embedding_part_backward", dy,
               {.bytes = 3.0 * static_cast<double>(dy.bytes())}, stream, [&]<class T>() {
                 cpu::embedding_part_backward(dtable.as<T>(), ids.as<std::int32_t>(), dy.as<T>(),
                                              rows, cols, first, dtable.shape()[0]);
               });
}

void cross_entropy_top(Tensor top, ConstTensor logits, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], cols = logits.shape()[1];
  check_shape("cross_entropy_top", "top", top, {rows});
  dispatch_cpu(Family::cross_entropy, "cross_entropy_top", logits, moves(logits), stream,
               [&]<class T>() { cpu::cross_entropy_top(top.as<T>(), logits.as<T>(), rows, cols); });
}

void cross_entropy_sums(Tensor sums, Tensor logits, ConstTensor labels, ConstTensor top,
                        std::int64_t first, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], cols = logits.shape()[1];
  check_shape("cross_entropy_sums", "sums", sums, {3, rows});
  check_shape("cross_entropy_sums", "labels", labels, {rows});
  check_shape("cross_entropy_sums", "top", top, {rows});
  dispatch_cpu(Family::cross_entropy, "cross_entropy_sums", logits, moves(logits, logits), stream,
               [&]<class T>() {
                 cpu::cross_entropy_sums(sums.as<T>(), logits.as<T>(), labels.as<std::int32_t>(),
                                         top.as<T>(), {.rows = rows, .cols = cols, .first = first});
               });
}

void cross_entropy_part(const CrossEntropyPart& p, Stream& stream) {
  const std::int64_t rows = p.logits.shape()[0], cols = p.logits.shape()[1];
  check_shape("cross_entropy_part", "loss", p.loss, {rows});
  check_shape("cross_entropy_part", "labels", p.labels, {rows});
  check_shape("cross_entropy_part", "sums", p.sums, {3, rows});
  if (p.row_weight) check_shape("cross_entropy_part", "row_weight", p.row_weight, {rows});
  const Cost cost = p.row_weight ? moves(p.logits, p.logits) : moves(p.sums);
  dispatch_cpu(Family::cross_entropy, "cross_entropy_part", p.logits, cost, stream, [&]<class T>() {
    cpu::cross_entropy_part(p.loss.as<T>(), p.logits.as<T>(), p.labels.as<std::int32_t>(),
                            or_null<T>(p.row_weight), p.sums.as<T>(),
                            {.rows = rows, .cols = cols, .first = p.first, .vocab = p.vocab},
                            p.smoothing);
  });
}

void cross_entropy(Tensor loss, Tensor logits, ConstTensor labels, ConstTensor row_weight,
                   double smoothing, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], vocab = logits.shape()[1];
  check_shape("cross_entropy", "loss", loss, {rows});
  check_shape("cross_entropy", "labels", labels, {rows});
  if (row_weight) check_shape("cross_entropy", "row_weight", row_weight, {rows});
  dispatch(
      Family::cross_entropy, logits,
      {.bytes = (row_weight ? 2.0 : 1.0) * static_cast<double>(logits.bytes())}, stream,
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
