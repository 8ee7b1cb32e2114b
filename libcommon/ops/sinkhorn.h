// Even choices of routers, and varied inputs of theirs (kernels/sinkhorn.h).
#pragma once

#include "kernels/sinkhorn.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// keys: [tokens, experts] of the sum_dtype;  logits: [tokens, experts];  work: [tokens + 2 experts]
// of the sum_dtype, scratch.
void sinkhorn(Tensor keys, Tensor work, ConstTensor logits, Stream& stream);
// y, x: [rows, channels].
void jitter(Tensor y, ConstTensor x, const Jitter& jitter, Stream& stream);

}  // namespace mt
