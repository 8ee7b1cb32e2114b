#include "kernels/packed_rows.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void packed_embedding(Tensor y, ConstTensor ids, ConstTensor table, std::int64_t first,
                      Stream& stream) {
  const Cost cost{.bytes = 2.0 * static_cast<double>(y.bytes())};
  dispatch_floats(Family::embedding, "packed_embedding", y, cost, stream, [&] {
    const auto* const bytes = table.as<std::uint8_t>();
    cpu::packed_embedding(y.as<float>(), ids.as<std::int32_t>(), bytes, ids.numel(),
                          {first, PackedRows(bytes).rows()});
  });
}

}  // namespace mt
