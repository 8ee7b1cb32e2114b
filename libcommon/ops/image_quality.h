// How near painted images are to what they should be (kernels/image_quality.h).
#pragma once

#include "kernels/image_quality.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// similar: [3 images], of the sum_dtype;  x, t: [images patches, patch patch 3];  painted:
// [images patches].
void structural_similarity(Tensor similar, ConstTensor x, ConstTensor t, ConstTensor painted,
                           const PatchedImages& shape, Stream& stream);
// x: [1] f64, a mean square, which becomes the ratio of 1 to it in decibels.
void to_decibels(Tensor x, Stream& stream);

}  // namespace mt
