// Blocks of GGUF's types from numbers, as ggml's quantize_row_*_ref makes them without an
// importance matrix (ggml-quants.c), in float32 and to the bit: reciprocals, ties and the order of
// sums are its.
//   q4_0, q5_0       d from the number of largest magnitude, which becomes the lowest q
//   q4_1, q5_1       d = (max - min) / (15 or 31), m = min
//   q8_0             d = max |x| / 127, halves away from zero
//   mxfp4            2^(floor(log2 max |x|) - 2), and the nearest of E2M1's numbers, of two alike
//                    the smaller; numbers that are of such blocks stay
//   q2_k, q4_k, q5_k for each part the d and m of least weighted error among some, by least squares
//                    from roundings at nearby steps; these to 4 or 6 bits of the block's own
//   q3_k, q6_k       the same without m, of q3_k by changes of one number at a time
#pragma once

#include <cstddef>
#include <span>

#include "ckpt/gguf_blocks.h"

namespace mt {

// `numbers`: of whole blocks, and a type of those above.  What is no number, and all numbers of a
// block whose scale float16 has none for, become what the arithmetic makes of them: check them
// first.
void quantize(GgufType type, std::byte* blocks, std::span<const float> numbers);

// Makes blocks as llama.cpp's quantize_row_*_impl does, of whole rows with what an importance
// matrix says of each column: errors weigh as w = importance sqrt(s² + x²), s² the mean of x² over
// the block of 256, twice that but of q2_k, or over the row, for types of 32; of q6_k as the
// importance alone.
//   q4_0, q5_0, q3_k, q6_k   the d of least weighted error among roundings at 19 steps
//   q4_1, q5_1, q2_k, q4_k, q5_k   the d and m as above, of 37 steps; where these become 4 or 6
//                    bits, the block's own d and m have least error, weighted by the parts' w
// q8_0 and mxfp4 are as without one, and so is all where `importance` is empty.
void quantize(GgufType type, std::byte* blocks, std::span<const float> rows,
              std::span<const float> importance);

}  // namespace mt
