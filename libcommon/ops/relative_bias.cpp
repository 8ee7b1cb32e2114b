#include "kernels/relative_bias.h"

#include "kernels/alibi.h"
#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

// first_head: of the table's, the first of the bias's.
static RelativeShape shape_of(const char* operation, const ConstTensor& bias,
                              const ConstTensor& table, std::int64_t first_head,
                              const RelativeBuckets& buckets) {
  const RelativeShape shape{.length = (bias.shape()[1] + 1) / 2,
                            .heads = bias.shape()[0],
                            .all_heads = table.shape()[1],
                            .first_head = first_head,
                            .buckets = buckets};
  check_shape(operation, "bias", bias, {shape.heads, shape.span()});
  const std::int64_t rows = table.shape()[0];  // of an odd number both sides have no last one
  if (rows / (buckets.both_sides ? 2 : 1) != buckets.side)
    fail(Exit::internal, operation, ": table has ", rows, " buckets, expected ", buckets.side,
         buckets.both_sides ? " for each side" : "");
  if (first_head < 0 || first_head + shape.heads > shape.all_heads)
    fail(Exit::internal, operation, ": heads ", first_head, " to ", first_head + shape.heads,
         " of ", shape.all_heads);
  return shape;
}

void relative_bias(Tensor bias, ConstTensor table, std::int64_t first_head,
                   const RelativeBuckets& buckets, Stream& stream) {
  const RelativeShape shape = shape_of("relative_bias", bias, table, first_head, buckets);
  dispatch(
      Family::attention, table, moves(bias), stream,
      [&]<class T>() { cpu::relative_bias(bias.as<T>(), table.as<T>(), shape); },
      [&]<class T>() {
        cuda::relative_bias(bias.as<float>(), table.as<T>(), shape, stream.handle());
      });
}

void relative_bias_backward(Tensor d_table, ConstTensor d_bias, std::int64_t first_head,
                            const RelativeBuckets& buckets, Stream& stream) {
  const RelativeShape shape =
      shape_of("relative_bias_backward", d_bias, d_table, first_head, buckets);
  dispatch(
      Family::attention, d_table, moves(d_bias), stream,
      [&]<class T>() { cpu::relative_bias_backward(d_table.as<T>(), d_bias.as<T>(), shape); },
      [&]<class T>() {
        with_gradient_type<T>(d_table, [&]<class G>() {
          cuda::relative_bias_backward(d_table.as<G>(), d_bias.as<float>(), shape, stream.handle());
        });
      });
}

void alibi(Tensor bias, std::int64_t all_heads, std::int64_t first_head, Stream& stream) {
  const AlibiShape shape{.length = (bias.shape()[1] + 1) / 2,
                         .heads = bias.shape()[0],
                         .all_heads = all_heads,
                         .first_head = first_head};
  dispatch_cpu(Family::attention, "alibi", bias, moves(bias), stream,
               [&]<class T>() { cpu::alibi(bias.as<T>(), shape); });
}

}  // namespace mt
