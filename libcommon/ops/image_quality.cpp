#include "ops/image_quality.h"

#include "ops/check.h"

namespace mt {

void structural_similarity(Tensor similar, ConstTensor x, ConstTensor t, ConstTensor painted,
                           const PatchedImages& shape, Stream& stream) {
  const std::int64_t rows = shape.images * shape.patches();
  check_shape("structural_similarity", "similar", similar, {3 * shape.images});
  for (const ConstTensor* patches : {&x, &t})
    check_shape("structural_similarity", "patches", *patches, {rows, shape.patch_width()});
  check_shape("structural_similarity", "painted", painted, {rows});
  dispatch(
      Family::cross_entropy, x, moves(x, t), stream,
      [&]<class T>() {
        cpu::structural_similarity(similar.as<T>(), x.as<T>(), t.as<T>(), painted.as<T>(), shape);
      },
      [&]<class X>() {
        cuda::structural_similarity(similar.as<float>(), x.as<X>(), t.as<float>(),
                                    painted.as<float>(), shape, stream.handle());
      });
}

void to_decibels(Tensor x, Stream& stream) {
  check_shape("to_decibels", "x", x, {1});
  if (x.device() == Device::meta) return stream.count(moves(x), Family::cross_entropy);
  const Stream::Working working(stream, Family::cross_entropy);
  if constexpr (kWithCuda)
    if (x.device() == Device::cuda) return cuda::to_decibels(x.as<double>(), stream.handle());
  stream.run([&] { cpu::to_decibels(x.as<double>()); });
}

}  // namespace mt
