#include "nn/relative_bias.h"

#include "ops/ops.h"

namespace mt {

Tensor RelativeBias::forward(Step& s, std::int64_t length) const {
  const Tensor bias = s.scratch_sums({heads_, 2 * length - 1});
  if (table_ == nullptr) {
    alibi(bias, all_heads_, first_head_, s.stream);
    return bias;
  }
  relative_bias(bias, s.weight(*table_), first_head_, buckets_, s.stream);
  s.done(*table_);
  return bias;
}

void RelativeBias::backward(Step& s, ConstTensor d_bias) const {
  relative_bias_backward(s.gradient_of(*table_), d_bias, first_head_, buckets_, s.stream);
}

}  // namespace mt
