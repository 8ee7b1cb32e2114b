// Matrices in eight bits with scales: X.weight, [out, in] of E4M3 or int8, is multiplied by
// X.weight_scale or X.weight_scale_inv (which multiplies, too, despite its name), of shape
//   [] or [1]                    the matrix's
//   [out] or [out, 1]            one of each row
//   [out / r, in / c], rounded up, or [out / r, 1, in / c, 1]      one of each block of r x c
//   [out, groups]                one of in / groups elements of a row
// Scales of E4M3 may be powers of two, E8M0.
// X.weight_zero_point, of the scale's shape, is subtracted before; X.pre_quant_scale, [in],
// multiplies what the matrix is multiplied with, and so its columns.  As Hugging Face's fp8,
// compressed-tensors' float-quantized and int-quantized, and ModelOpt's FP8 and INT8_SQ have them.
#pragma once

#include <vector>

#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"

namespace mt {

// Those of `stored`, which must outlive them.  Exit::bad_data for a matrix without its scale, or
// the zero points that it is said to have, and for scales of another shape.
std::vector<PackedWeight> scaled_weights(const TensorSource& stored, const Quantization& q);

}  // namespace mt
