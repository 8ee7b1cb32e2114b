// Blocks of GGUF's types whose elements are points of a grid (gguf_grids.h), eight or four of a
// point, most with signs and a scale of some.  Of 256 elements each:
//   iq2_xxs  66 bytes: d, of each 32 elements four bytes i and u32 w: of each 8 the point i[k], the
//            signs the seven bits 7 k of w; d (1/2 + the highest four of w) / 4
//   iq2_xs   74: d, of each 8 a u16: the point in nine bits, signs in seven; of each 32 a byte:
//            lo, hi the scales of 16 elements each: d (1/2 + s) / 4
//   iq2_s    82: d, of each 8 the low byte of the point, of each 8 a byte of signs, of each 32 two
//            bits of each of four points; of each 32 a byte of two scales as above
//   iq3_xxs  98: d, of each 4 the point, of each 32 a u32 as of iq2_xxs: d (1/2 + s) / 2
//   iq3_s    110: d, of each 4 the low byte of the point, of each 32 a bit of each of eight points,
//            of each 8 a byte of signs, of each 64 a byte: lo, hi the scales of 32 elements each:
//            d (1 + 2 s)
//   iq1_s    50: d, of each 8 the low byte of the point, of each 32 a u16: three bits of each of
//            four points, of the scale, and one that says whether an eighth is subtracted or added:
//            d (1 + 2 s) (element -+ 1/8)
//   iq1_m    56: of each 8 the low byte of the point, of each 16 a byte of two halves: three bits
//            of the point, one as above; four u16: three bits of each of four scales, of 16
//            elements each, and four bits of d, the lowest first
// Seven bits of signs stand for eight, of which an even number are set, the first element's lowest.
#pragma once

#include <cstddef>

namespace mt {

void read_iq2_xxs(float* to, const std::byte* block);
void read_iq2_xs(float* to, const std::byte* block);
void read_iq2_s(float* to, const std::byte* block);
void read_iq3_xxs(float* to, const std::byte* block);
void read_iq3_s(float* to, const std::byte* block);
void read_iq1_s(float* to, const std::byte* block);
void read_iq1_m(float* to, const std::byte* block);

}  // namespace mt
