#include "ops/sinkhorn.h"

#include "ops/check.h"

namespace mt {

void sinkhorn(Tensor keys, Tensor work, ConstTensor logits, Stream& stream) {
  const std::int64_t tokens = row_count(logits), experts = columns(logits);
  check_shape("sinkhorn", "keys", keys, logits.shape());
  check_shape("sinkhorn", "work", work, {tokens + 2 * experts});
  dispatch(
      Family::elementwise, logits, moves(logits, keys), stream,
      [&]<class T>() {
        cpu::sinkhorn(keys.as<T>(), work.as<T>(), logits.as<T>(), tokens, experts);
      },
      [&]<class T>() {
        cuda::sinkhorn(keys.as<float>(), work.as<float>(), logits.as<T>(), tokens, experts,
                       stream.handle());
      });
}

void jitter(Tensor y, ConstTensor x, const Jitter& by, Stream& stream) {
  const std::int64_t rows = row_count(x), cols = columns(x);
  check_shape("jitter", "y", y, x.shape());
  dispatch(
      Family::elementwise, x, moves(x, y), stream,
      [&]<class T>() { cpu::jitter(y.as<T>(), x.as<T>(), rows, cols, by); },
      [&]<class T>() { cuda::jitter(y.as<T>(), x.as<T>(), rows, cols, by, stream.handle()); });
}

}  // namespace mt
