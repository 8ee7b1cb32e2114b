#include "kernels/attention_part.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

static void check_part(const char* operation, const ConstTensor& o, const ConstTensor& lse,
                       const ConstTensor& q, const ConstTensor& k, const ConstTensor& v,
                       const AttentionShape& shape) {
  check_shape(operation, "q", q, {shape.q_length, shape.heads, shape.head_dim});
  check_shape(operation, "k", k, {shape.kv_length, shape.kv_heads, shape.head_dim});
  check_shape(operation, "v", v, k.shape());
  check_shape(operation, "o", o, q.shape());
  check_shape(operation, "lse", lse, {1, shape.heads, shape.q_length});
}

// FLOPs of the products that a part needs: half of them if its queries are its keys' tokens.
static double part_flops(const AttentionShape& shape, const AttentionRange& range) {
  const auto pairs = static_cast<double>(shape.q_length * shape.kv_length);
  const auto channels = static_cast<double>(shape.heads * shape.head_dim);
  return 2 * channels * (range.query == range.key ? pairs / 2 : pairs);
}

static void check_no_documents(const char* operation, const ConstTensor& first_key,
                               const AttentionShape& shape) {
  if (first_key || shape.window >= 0)
    fail(Exit::internal, operation, ": neither documents nor windows on GPUs");
}

void attention_part_forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                            ConstTensor first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout, Stream& stream) {
  check_part("attention_part_forward", o, lse, q, k, v, shape);
  Cost cost = moves(o, lse, q, k, v);
  cost.flops = 2 * part_flops(shape, range);
  void* const work = typed_gpu_work(
      q, stream, [&]<class T>() { return cuda::attention_part_forward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        cpu::attention_part_forward(o.as<T>(), lse.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(),
                                    or_null<std::int32_t>(first_key), shape, range, dropout);
      },
      [&]<class T>() {
        check_no_documents("attention_part_forward", first_key, shape);
        cuda::attention_part_forward(o.as<float>(), lse.as<float>(), q.as<T>(), k.as<T>(),
                                     v.as<T>(), shape, range, dropout, work, stream.handle());
      });
}

void attention_part_backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o,
                             ConstTensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                             ConstTensor first_key, const AttentionShape& shape,
                             const AttentionRange& range, const Dropout& dropout, Stream& stream) {
  check_part("attention_part_backward", o, lse, q, k, v, shape);
  check_part("attention_part_backward", d_o, lse, dq, dk, dv, shape);
  Cost cost = moves(d_o, o, lse, q, k, v, dq, dk, dv);
  cost.flops = 5 * part_flops(shape, range);
  void* const work = typed_gpu_work(
      q, stream, [&]<class T>() { return cuda::attention_part_backward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        cpu::attention_part_backward(dq.as<T>(), dk.as<T>(), dv.as<T>(), d_o.as<T>(), o.as<T>(),
                                     lse.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(),
                                     or_null<std::int32_t>(first_key), shape, range, dropout);
      },
      [&]<class T>() {
        check_no_documents("attention_part_backward", first_key, shape);
        cuda::attention_part_backward(dq.as<float>(), dk.as<float>(), dv.as<float>(), d_o.as<T>(),
                                      o.as<T>(), lse.as<float>(), q.as<T>(), k.as<T>(), v.as<T>(),
                                      shape, range, dropout, work, stream.handle());
      });
}

}  // namespace mt
