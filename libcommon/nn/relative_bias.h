// RelativeBias: what is added to a layer's scores of attention for how far keys are from queries
// (kernels/relative_bias.h), from a table that all layers of a stack have in common.
#pragma once

#include "kernels/relative_bias.h"
#include "nn/step.h"

namespace mt {

class RelativeBias {
 public:
  // table: [buckets, all heads]; this rank has so many of the heads, from first_head on.
  RelativeBias(const Param& table, const RelativeBuckets& buckets, std::int64_t first_head,
               std::int64_t heads)
      : table_(&table), buckets_(buckets), first_head_(first_head), heads_(heads) {}

  bool is_trainable() const { return table_->trainable; }
  // Returns the bias of sequences of this length, [heads, 2 length - 1] of the sum_dtype, in
  // `layer`.
  Tensor forward(Step& s, std::int64_t length) const;
  void backward(Step& s, ConstTensor d_bias) const;

 private:
  const Param* table_;
  RelativeBuckets buckets_;
  std::int64_t first_head_, heads_;
};

}  // namespace mt
