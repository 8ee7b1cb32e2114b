#include "kernels/nf4.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void nf4_unpack(Tensor y, ConstTensor packed, Stream& stream) {
  Nf4Shape shape{.rows = y.shape()[0], .cols = y.shape()[1]};
  shape.scales = (packed.numel() - shape.bytes()) / static_cast<std::int64_t>(sizeof(Nf4Scale));
  check_shape("nf4_unpack", "packed", packed, {shape.bytes()});
  const auto* const bytes = packed.as<std::uint8_t>();
  dispatch(
      Family::elementwise, y, moves(y, packed), stream,
      [&]<class T>() { cpu::nf4_unpack(y.as<T>(), bytes, shape); },
      [&]<class T>() { cuda::nf4_unpack(y.as<T>(), bytes, shape, stream.handle()); });
}

}  // namespace mt
