// Weights that gpt-oss has in four bits (MXFP4: Open Compute Project, OCP Microscaling Formats
// v1.0, section 6.3): NAME of [experts, in, out] is there as
//   NAME_blocks  [experts, out, in / 32, 16] u8: two numbers each, the low four bits the first's
//   NAME_scales  [experts, out, in / 32] u8
// A number is E2M1's, of which bit 3 is the sign, times 2^(scale - 127): exact in bf16, but for
// those beyond its largest, which become infinite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/hugging_face/packed_tensors.h"

namespace mt {

// E2M1's numbers, by their four bits.
inline constexpr float kE2m1[] = {0,    .5F,  1,  1.5F,  2,  3,  4,  6,
                                  -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};

// That number times 2^(scale - 127), of which 255 is no number.
float scaled_e2m1(unsigned bits, std::uint8_t scale);

// Where codes of E2M1 lie in blocks (kernels/packed_rows.h): of each 32, low bits first in 16
// bytes, those of the first half in the low bits.
void lay_out_e2m1(std::uint8_t* to, std::span<const std::uint8_t> codes);
// A block of mxfp4.  Whether its numbers are finite.
bool lay_out_mxfp4(std::uint8_t* to, std::uint8_t scale, std::span<const std::uint8_t> codes);

// Those of `stored`, which must outlive them.  Exit::bad_data for blocks and scales that do not
// belong together.
std::vector<PackedWeight> mxfp4_weights(const TensorSource& stored);

}  // namespace mt
