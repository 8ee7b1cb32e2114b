// Matrices [out, in] of four bits an element, two in a byte.
//   NVFP4, of ModelOpt: X.weight u8 [out, in / 2], the low bits the first element's, each E2M1;
//           X.weight_scale E4M3 [out, in / 16]; X.weight_scale_2 of one element: both multiply.
//   NVFP4, of compressed-tensors: X.weight_packed for X.weight, and X.weight_global_scale, which
//           divides.
//   MXFP4, of both: X.weight or X.weight_packed as above, and X.weight_scale u8 [out, in / 32]: two
//           to the power of that less 127 multiplies.
//   int4, of ModelOpt's AWQ: X.weight u8 [out / 2, in], the low bits the even row's, in two's
//           complement;
//           X.weight_scale [out, groups]; X.pre_quant_scale [in] multiplies the columns, if it is
//           there.
#pragma once

#include <vector>

#include "formats/hugging_face/packed_tensors.h"

namespace mt {

// Those of `stored`, which must outlive them.  Exit::bad_data for tensors that do not belong
// together.
std::vector<PackedWeight> byte_weights(const TensorSource& stored);

}  // namespace mt
