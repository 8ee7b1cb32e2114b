#include "kernels/packed_rows.h"

#include "kernels/packed_few_rows.h"

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

// body.operator()<T>() of what a GPU computes with tiles in.
template <class Body>
static void with_tiles_type(const char* operation, const ConstTensor& like, const Body& body) {
  if (like.dtype() == DType::bf16) return body.template operator()<__nv_bfloat16>();
  if (like.dtype() == DType::f16) return body.template operator()<__half>();
  fail(Exit::internal, operation, ": of ", name_of(like.dtype()), ", expected 16 bits");
}

// Counts on meta; on a GPU calls body.operator()<T>().
template <class Body>
static void dispatch_tiles(Family family, const char* operation, const Tensor& y, const Cost& cost,
                           Stream& stream, const Body& body) {
  if (y.device() == Device::meta) return stream.count(cost, family);
  const Stream::Working working(stream, family);
  if constexpr (kWithCuda)
    if (y.device() == Device::cuda) return with_tiles_type(operation, y, body);
  fail(Exit::internal, operation, ": for GPUs alone");
}

void tiles_embedding(Tensor y, ConstTensor ids, ConstTensor table, const PackedTiles& form,
                     std::int64_t first, Stream& stream) {
  const Cost cost{.bytes = 2.0 * static_cast<double>(y.bytes())};
  dispatch_tiles(Family::embedding, "tiles_embedding", y, cost, stream, [&]<class T>() {
    cuda::tiles_embedding(y.as<T>(), ids.as<std::int32_t>(), table.as<std::uint8_t>(), form,
                          ids.numel(), first, stream.handle());
  });
}

void unpack_tiles(Tensor y, ConstTensor tiles, const PackedTiles& form, Stream& stream) {
  check_shape("unpack_tiles", "y", y, {form.rows(), form.cols()});
  dispatch_tiles(Family::elementwise, "unpack_tiles", y, moves(y, tiles), stream, [&]<class T>() {
    cuda::unpack_tiles(y.as<T>(), tiles.as<std::uint8_t>(), form, stream.handle());
  });
}

}  // namespace mt
