// Matrices of a few bits an element in words of 32, the lowest bits of a word its first element's,
// as [out, in] matrices; q is an element's bits, s the scale and z the zero of its group.
//   AWQ     X.qweight [in, out / 8], X.qzeros [groups, out / 8], X.scales [groups, out], 4 bits: (q
//   - z) s.
//           The elements of a word are those of columns 0 2 4 6 1 3 5 7.
//   GPTQ    X.qweight [in b / 32, out], X.qzeros [groups, out b / 32], X.scales [groups, out], and
//           X.g_idx [in], the group of each input, where it is not the input's place by the group's
//           size: (q - z - 1) s, or, in the format gptq_v2, (q - z) s.
//   compressed-tensors' pack-quantized    X.weight_packed [out, in b / 32, rounded up],
//   X.weight_shape [2],
//           X.weight_scale [out, groups], X.weight_g_idx [in] as above, X.weight_zero_point
//           [out b / 32, groups], or none, which is 2^(b - 1): (q - z) s.
#pragma once

#include <vector>

#include "formats/hugging_face/packed_tensors.h"
#include "formats/hugging_face/quantization.h"

namespace mt {

// Those of `stored`, which must outlive them.  Exit::bad_data for tensors that do not belong
// together, and without those that every matrix is said to have.
std::vector<PackedWeight> awq_weights(const TensorSource& stored, const Quantization& q);
std::vector<PackedWeight> gptq_weights(const TensorSource& stored, const Quantization& q);
// Which of the widths a matrix has is seen by its shape.
std::vector<PackedWeight> compressed_words(const TensorSource& stored, const Quantization& q);

}  // namespace mt
