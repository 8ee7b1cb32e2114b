#include "ops/largest_score.h"

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
  dispatch_cpu(Family::attention, "add_largest_scores", q, k ? moves(q, k) : moves(q), stream,
               [&]<class T>() {
                 const T* const keys = k ? k.as<T>() : q.as<T>() + shape.group() * shape.head_dim;
                 cpu::add_largest_scores(to, q.as<T>(), keys, or_null<std::int32_t>(first_key),
                                         shape);
               });
}

}  // namespace mt
