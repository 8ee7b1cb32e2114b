// Weights as bitsandbytes stores them.
//   In four bits: for X.weight of any shape, whose elements lie row-major, two a byte, the high
//   bits the first's, in blocks of `blocksize`
//     X.weight                   u8 [bytes, 1]
//     X.weight.quant_map         f32 [16]: an element is quant_map[its bits] times its block's
//     absmax X.weight.absmax            f32 [blocks]; or u8, of which a block's is
//                                nested_quant_map[u8] nested_absmax[block / nested_blocksize] +
//                                nested_offset
//     X.weight.nested_quant_map  f32 [256], and X.weight.nested_absmax f32, with such absmax
//     X.weight.quant_state.bitsandbytes__nf4, or __fp4: JSON's bytes, u8, with quant_type,
//     blocksize,
//                                shape, nested_blocksize and nested_offset
//   In eight bits: X.weight i8 [out, in], and X.SCB f32 [out]: row r is SCB[r] / 127 times its
//   integers. X.weight_format, a u8, is 0 then: rows lie one behind another.
#pragma once

#include <vector>

#include "formats/hugging_face/packed_tensors.h"

namespace mt {

// Those of `stored`, which must outlive them.  Exit::bad_data for tensors that do not belong
// together.
std::vector<PackedWeight> bitsandbytes_weights(const TensorSource& stored);

}  // namespace mt
