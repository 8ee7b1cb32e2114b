#include "nn/weight_grads.h"

#include "ops/ops.h"

namespace mt {

static void accumulate(const WeightGrad& record, Stream& stream) {
  if (record.weight->trainable)
    matmul({.out = record.weight->grad,
            .a = record.dy,
            .b = record.x,
            .transpose_a = true,
            .accumulate = true},
           stream);
  if (record.bias != nullptr && record.bias->trainable)
    column_sum(record.bias->grad, record.dy, stream);
}

void WeightGrads::push(const WeightGrad& record, Stream& stream) {
  if (deferring_)
    queue_.push_back(record);
  else
    accumulate(record, stream);
}

void WeightGrads::run(Stream& stream) {
  for (const WeightGrad& record : queue_) accumulate(record, stream);
  queue_.clear();
}

}  // namespace mt
