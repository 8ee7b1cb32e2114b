#include "nn/router_product.h"

#include "nn/weight_grads.h"
#include "ops/ops.h"
#include "ops/wide_product.h"

namespace mt {

bool RouterProduct::is_wide(const Step& s) const {
  return type_ != RouterType::own && size_of(sums()) > size_of(s.dtype);
}

DType RouterProduct::dtype(const Step& s) const {
  return is_wide(s) ? sum_dtype(s.dtype) : s.dtype;
}

void RouterProduct::forward(Step& s, Tensor logits, ConstTensor x) const {
  const ConstTensor w = s.weight(*weight_), b = bias_ != nullptr ? s.weight(*bias_) : ConstTensor();
  // Products of 16 bits are exact in f32, in which they are added up in any case.
  if (is_wide(s) && (sums() == DType::f64 || b))
    wide_matmul({.out = logits,
                 .a = x,
                 .b = w,
                 .transpose_b = true,
                 .bias = b,
                 .sums = sums(),
                 .rows_alone = s.rows_alone()},
                s.stream);
  else
    matmul({.out = logits,
            .a = x,
            .b = w,
            .transpose_b = true,
            .bias = b,
            .rows_alone = s.rows_alone()},
           s.stream);
  s.done(*weight_);
}

void RouterProduct::backward(Step& s, Tensor dx, ConstTensor d_logits, ConstTensor x,
                             bool accumulate) const {
  const ConstTensor w = s.weight(*weight_);
  const bool wide = is_wide(s);
  if (wide)
    wide_matmul({.out = dx, .a = d_logits, .b = w, .accumulate = accumulate, .sums = sums()},
                s.stream);
  else
    matmul({.out = dx, .a = d_logits, .b = w, .accumulate = accumulate}, s.stream);
  s.done(*weight_);
  WeightGrad record{.weight = weight_, .bias = bias_, .dy = d_logits, .x = x};
  if (wide) record.cast_to = sums();
  s.weight_grads.push(record, s.stream);
}

}  // namespace mt
