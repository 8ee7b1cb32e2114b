#include "ops/largest_score.h"

#include <cstddef>

#include "kernels/largest_score.h"
#include "ops/check.h"

namespace mt {

void add_largest_scores(Tensor largest, ConstTensor q, ConstTensor k, ConstTensor first_key,
                        const AttentionShape& asked, Stream& stream) {
  AttentionShape shape = asked;
  shape.packed = !k;
  const std::int64_t tokens = shape.sequences * shape.q_length;
  check_shape("add_largest_scores", "largest", largest, {shape.heads});
  if (shape.packed)
    check_shape("add_largest_scores", "q", q,
                {tokens, (shape.heads + 2 * shape.kv_heads) * shape.head_dim});
  else
    check_shape("add_largest_scores", "q", q, {tokens, shape.heads, shape.head_dim});
  auto* const to = largest.as<double>();
  const auto* const first = or_null<std::int32_t>(first_key);
  // Packed, a group's keys are behind its queries.
  const auto behind = static_cast<std::size_t>(shape.group() * shape.head_dim);
  const void* const keys =
      k ? k.data() : static_cast<const std::byte*>(q.data()) + behind * size_of(q.dtype());
  dispatch(
      Family::attention, q, k ? moves(q, k) : moves(q), stream,
      [&]<class T>() {
        cpu::add_largest_scores(to, q.as<T>(), static_cast<const T*>(keys), first, shape);
      },
      [&]<class T>() {
        cuda::add_largest_scores(to, q.as<T>(), static_cast<const T*>(keys), first, shape,
                                 stream.handle());
      });
}

}  // namespace mt
