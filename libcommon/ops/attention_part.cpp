#include "kernels/attention_part.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

static void check_part(const char* operation, const ConstTensor& o, const ConstTensor& lse,
                       const ConstTensor& q, const ConstTensor& k, const ConstTensor& v,
                       const AttentionShape& shape, const AttentionRange& range) {
  check_shape(operation, "q", q, {shape.q_length, shape.heads, shape.head_dim});
  check_shape(operation, "k", k, {shape.kv_length, shape.kv_heads, shape.head_dim});
  check_shape(operation, "v", v, k.shape());
  check_shape(operation, "o", o, q.shape());
  const std::int64_t stride = range.lse_stride > 0 ? range.lse_stride : shape.q_length;
  check_shape(operation, "lse", lse, {(shape.heads - 1) * stride + shape.q_length});
}

// FLOPs of the products that a part needs: half of them if its queries are its keys' tokens.
static double part_flops(const AttentionShape& shape, const AttentionRange& range) {
  const auto pairs = static_cast<double>(shape.q_length * shape.kv_length);
  const auto channels = static_cast<double>(shape.heads * shape.head_dim);
  return 2 * channels * (range.same_tokens() ? pairs / 2 : pairs);
}

static void check_no_documents(const char* operation, const ConstTensor& first_key,
                               const AttentionShape& shape) {
  if (first_key || shape.window >= 0)
    fail(Exit::internal, operation, ": neither documents nor windows on GPUs");
}

void attention_part_forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                            ConstTensor first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout,
                            AttentionSoFar so_far, Stream& stream) {
  check_part("attention_part_forward", o, lse, q, k, v, shape, range);
  Cost cost = moves(o, lse, q, k, v);
  cost.flops = 2 * part_flops(shape, range);
  void* const work = typed_gpu_work(
      q, stream, [&]<class T>() { return cuda::attention_part_forward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        cpu::attention_part_forward(o.as<T>(), lse.as<T>(), q.as<T>(), k.as<T>(), v.as<T>(),
                                    or_null<std::int32_t>(first_key), shape, range, dropout,
                                    so_far);
      },
      [&]<class T>() {
        check_no_documents("attention_part_forward", first_key, shape);
        const auto run = [&]<class Q>() {
          cuda::attention_part_forward(o.as<Q>(), lse.as<float>(), q.as<T>(), k.as<T>(), v.as<T>(),
                                       shape, range, dropout, so_far, work, stream.handle());
        };
        o.dtype() == q.dtype() ? run.template operator()<T>() : run.template operator()<float>();
      });
}

void attention_part_backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o,
                             ConstTensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                             ConstTensor first_key, const AttentionShape& shape,
                             const AttentionRange& range, const Dropout& dropout,
                             AttentionSoFar so_far, Stream& stream) {
  check_part("attention_part_backward", o, lse, q, k, v, shape, range);
  check_part("attention_part_backward", d_o, lse, dq, dk, dv, shape, range);
  Cost cost = moves(d_o, o, lse, q, k, v, dq, dk, dv);
  cost.flops = 5 * part_flops(shape, range);
  void* const work = typed_gpu_work(
      q, stream, [&]<class T>() { return cuda::attention_part_backward_work<T>(shape); });
  dispatch(
      Family::attention, q, cost, stream,
      [&]<class T>() {
        cpu::attention_part_backward(
            dq.as<T>(), dk.as<T>(), dv.as<T>(), d_o.as<T>(), o.as<T>(), lse.as<T>(), q.as<T>(),
            k.as<T>(), v.as<T>(), or_null<std::int32_t>(first_key), shape, range, dropout, so_far);
      },
      [&]<class T>() {
        check_no_documents("attention_part_backward", first_key, shape);
        const auto run = [&]<class Q, class K>() {
          cuda::attention_part_backward(dq.as<Q>(), dk.as<K>(), dv.as<K>(), d_o.as<T>(), o.as<T>(),
                                        lse.as<float>(), q.as<T>(), k.as<T>(), v.as<T>(), shape,
                                        range, dropout, so_far, work, stream.handle());
        };
        if (dk.dtype() != q.dtype()) return run.template operator()<float, float>();
        if (dq.dtype() != q.dtype()) return run.template operator()<float, T>();
        run.template operator()<T, T>();
      });
}

}  // namespace mt
