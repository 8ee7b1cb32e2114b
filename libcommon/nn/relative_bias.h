// RelativeBias: what is added to a layer's scores of attention for how far keys are from queries:
// from a table that all layers of a stack have in common (kernels/relative_bias.h), or as ALiBi
// says (kernels/alibi.h).
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

  // ALiBi's, of so many heads in all.
  RelativeBias(std::int64_t all_heads, std::int64_t first_head, std::int64_t heads)
      : first_head_(first_head), heads_(heads), all_heads_(all_heads) {}

  bool is_trainable() const { return table_ != nullptr && table_->trainable; }
  // Returns the bias of sequences of this length, [heads, 2 length - 1] of the sum_dtype, in
  // `layer`.
  Tensor forward(Step& s, std::int64_t length) const;
  void backward(Step& s, ConstTensor d_bias) const;

 private:
  const Param* table_ = nullptr;
  RelativeBuckets buckets_;
  std::int64_t first_head_, heads_, all_heads_ = 0;
};

}  // namespace mt
