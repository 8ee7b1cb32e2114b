// How large scores of attention are (kernels/largest_score.h).
#pragma once

#include "kernels/attention.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// largest: [heads] f64.  q, k, first_key: as attention_forward() takes them; k empty: packed in q.
void add_largest_scores(Tensor largest, ConstTensor q, ConstTensor k, ConstTensor first_key,
                        const AttentionShape& shape, Stream& stream);

}  // namespace mt
