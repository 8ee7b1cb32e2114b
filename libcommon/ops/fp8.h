// Casts to codes of eight bits (kernels/fp8.h).  Their products are matmul()'s (Matmul::codes).
#pragma once

#include "kernels/fp8.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// amax, scale, inverse: [1] f32.
void fp8_amax(Tensor amax, ConstTensor x, Stream& stream);
void fp8_scale(Tensor scale, Tensor inverse, ConstTensor amax, Fp8Format format, Stream& stream);
// x: [rows, cols];  codes: as x, u8;  transposed: [cols, rows] u8.  Either may be empty.
// amax, if it is given, becomes that of x and what is there.
void fp8_cast(Tensor codes, Tensor transposed, Tensor amax, ConstTensor x, ConstTensor scale,
              Fp8Format format, Stream& stream);

// Codes of blocks (kernels/fp8_blocks.h) of x, [rows, cols] of f32, f64 or, on a GPU, f32 or bf16.
// codes, transposed: as above, each with its inverses, [blocks, rows] and [blocks, cols] f32.
struct Fp8BlockCodes {
  Tensor codes, inverse, transposed, transposed_inverse;
};
void fp8_block_cast(const Fp8BlockCodes& to, ConstTensor x, bool squares, Stream& stream);

// Of a part of a matrix `whole`, its elements from `begin` on (kernels/fp8_parts.h): x, [count];
// codes, [count] u8; amax, f32, [1] or of squares, [fp8_blocks(rows), fp8_blocks(cols)].
struct Fp8PartOf {
  Shape whole;
  std::int64_t begin = 0;
};
void fp8_part_squares(Tensor amax, ConstTensor x, const Fp8PartOf& part, Stream& stream);
void fp8_part_cast_squares(Tensor codes, ConstTensor x, ConstTensor amax, const Fp8PartOf& part,
                           Stream& stream);
void fp8_part_cast(Tensor codes, Tensor amax, ConstTensor x, ConstTensor scale, Fp8Format format,
                   Stream& stream);
// Makes of a matrix's codes, and of the largest numbers of its squares or nothing, all else.
void fp8_complete(const Fp8BlockCodes& codes, ConstTensor amax, Stream& stream);

// As Fp8Delayed; the tensors f32: scale and amax [count], inverse [count, kFp8InverseStride],
// history [count, length].
void fp8_update(Tensor scale, Tensor inverse, Tensor history, Tensor amax, bool most_recent,
                int margin, Fp8Format format, Stream& stream);

}  // namespace mt
