#include "ops/text_means.h"

#include "ops/check.h"

namespace mt {

void text_means(Tensor mean, ConstTensor x, ConstTensor first, ConstTensor count, Stream& stream) {
  const std::int64_t texts = first.numel(), cols = columns(x);
  check_shape("text_means", "mean", mean, {texts, cols});
  check_shape("text_means", "count", count, {texts});
  const TextSpans spans{
      .first = first.as<std::int32_t>(), .count = count.as<std::int32_t>(), .texts = texts};
  dispatch(
      Family::elementwise, x, moves(mean, x), stream,
      [&]<class T>() { cpu::text_means(mean.as<T>(), x.as<T>(), spans, cols); },
      [&]<class T>() {
        cuda::text_means(mean.as<float>(), x.as<T>(), spans, cols, stream.handle());
      });
}

}  // namespace mt
