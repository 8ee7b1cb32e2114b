// Weights as bitsandbytes stores them.
//
// In four bits, X.weight of any shape, whose elements lie row-major in blocks of `blocksize`:
//   X.weight            u8 [bytes, 1], two elements a byte, the high bits the first's
//   X.weight.quant_map  f32 [16]; an element is quant_map[bits] times its block's absmax
//   X.weight.absmax     f32 [blocks], or u8 [blocks], of which block b's is
//                       nested_quant_map[u8] nested_absmax[b / nested_blocksize] + nested_offset
//   X.weight.nested_quant_map f32 [256] and X.weight.nested_absmax f32, with absmax in u8
//   X.weight.quant_state.bitsandbytes__nf4, or __fp4
//                       u8, the bytes of JSON with shape, blocksize, nested_blocksize,
//                       nested_offset
//
// In eight bits, X.weight i8 [out, in]:
//   X.SCB               f32 [out]; row r is SCB[r] / 127 times its integers
//   X.weight_format     u8; 0, as rows lie one behind another
#pragma once

#include <vector>

#include "formats/hugging_face/packed_tensors.h"

namespace mt {

// Those of `stored`, which must outlive them.  Exit::bad_data for tensors that do not belong
// together.
std::vector<PackedWeight> bitsandbytes_weights(const TensorSource& stored);

}  // namespace mt
