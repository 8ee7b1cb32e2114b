#include "ops/text_noise.h"

#include "ops/check.h"

namespace mt {

void add_text_noise(Tensor y, ConstTensor first_key, const TextNoise& noise, Stream& stream) {
  const std::int64_t rows = y.shape()[0], cols = y.shape()[1];
  const auto* const keys = first_key ? first_key.as<std::int32_t>() : nullptr;
  dispatch(
      Family::elementwise, y, moves(y, y), stream,
      [&]<class T>() { cpu::add_text_noise(y.as<T>(), keys, rows, cols, noise); },
      [&]<class T>() {
        cuda::add_text_noise(y.as<T>(), keys, rows, cols, noise, stream.handle());
      });
}

}  // namespace mt
