#pragma once

#include "kernels/text_means.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// Means over the rows of each text (kernels/text_means.h): mean [texts, cols] of the sum_dtype, x
// [rows, cols], first and count [texts] i32.
void text_means(Tensor mean, ConstTensor x, ConstTensor first, ConstTensor count, Stream& stream);

}  // namespace mt
