// Noise by how long a text is (kernels/text_noise.h).
#pragma once

#include "kernels/text_noise.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// y: [rows, cols]; first_key: [tokens] i32, of the micro-batch, or empty: then noise.lengths are
// of its sequences.
void add_text_noise(Tensor y, ConstTensor first_key, const TextNoise& noise, Stream& stream);

}  // namespace mt
