// How well queries find their own contexts among all of a batch (kernels/retrieval_loss.h).
#pragma once

#include "kernels/retrieval_loss.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// scores: [n, n each], which become their gradient where there is a weight; loss, weight: [n];
// hits: [tops.count, n], or empty where that is 0.  All of the sum_dtype.
void retrieval_loss(Tensor loss, Tensor hits, Tensor scores, ConstTensor weight,
                    const RetrievalTops& tops, Stream& stream);

}  // namespace mt
