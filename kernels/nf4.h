// kernels/nf4.h: matrices of four bits a number, as bitsandbytes has them: NF4 with double
// quantisation (Dettmers et al., QLoRA: arXiv:2305.14314, 3).
//   a = max |x| of 64 numbers, a block;          x ~ code[q] a, the code that is nearest to x / a
//   o = mean of all a, s = max |a - o| of 256;
//   a ~ level[p] s + o, the level that is nearest to (a - o) / s
// A rank's rows of a matrix lie in one array of bytes: q of all numbers, two a byte and the first
// in its high half; p of all blocks; then s and o, both f32, of every 256 blocks of the whole
// matrix, or of each of its parts; then, i32, which block its row begins with, 256 times the number
// of its s and o plus its place among the 256.  A row is whole blocks.
#pragma once

#include <cstdint>

#include "kernels/cuda_types.h"

namespace mt {

inline constexpr std::int64_t kNf4Block = 64, kNf4Scaled = 256;  // numbers; blocks of one s

struct Nf4Shape {
  std::int64_t rows = 0, cols = 0, scales = 0;  // the last: how many s there are
  // Where in the array its parts begin.
  constexpr std::int64_t blocks() const { return rows * cols / kNf4Block; }
  constexpr std::int64_t levels_at() const { return rows * cols / 2; }
  constexpr std::int64_t scales_at() const { return (levels_at() + blocks() + 7) / 8 * 8; }
  constexpr std::int64_t firsts_at() const { return scales_at() + 8 * scales; }
  constexpr std::int64_t bytes() const { return firsts_at() + 4 * rows; }
};

struct Nf4Scale {
  float scale, offset;
};

// The levels in (0, 1), which have both signs: of 2^i + 1 points from 0.1 to 1, i = 0 to 6, what
// lies halfway between each and the next, times 10^(i - 6), with the roundings that
// bitsandbytes' create_dynamic_map() has.
inline constexpr float kNf4HalfLevels[127] = {
    5.50000038e-07F, 3.25000019e-06F, 7.7499999e-06F,  2.12499981e-05F, 4.37499984e-05F,
    6.62500024e-05F, 8.87499991e-05F, 0.000156250011F, 0.000268750038F, 0.000381250022F,
    0.000493750034F, 0.000606250076F, 0.00071875006F,  0.000831249985F, 0.000943750085F,
    0.00128124992F,  0.00184375001F,  0.00240624999F,  0.00296874996F,  0.00353124971F,
    0.00409374991F,  0.00465624966F,  0.00521875033F,  0.00578125007F,  0.00634374982F,
    0.00690625003F,  0.00746874977F,  0.00803124998F,  0.00859375019F,  0.00915624946F,
    0.00971874967F,  0.0114062503F,   0.0142187504F,   0.0170312505F,   0.0198437516F,
    0.0226562507F,   0.0254687499F,   0.028281251F,    0.0310937501F,   0.0339062512F,
    0.0367187522F,   0.0395312496F,   0.0423437469F,   0.0451562516F,   0.047968749F,
    0.05078125F,     0.053593751F,    0.0564062484F,   0.0592187531F,   0.0620312504F,
    0.0648437515F,   0.0676562563F,   0.0704687461F,   0.0732812509F,   0.0760937482F,
    0.078906253F,    0.0817187577F,   0.0845312476F,   0.0873437524F,   0.0901562497F,
    0.0929687545F,   0.0957812592F,   0.0985937491F,   0.107031256F,    0.12109375F,
    0.135156244F,    0.149218753F,    0.163281247F,    0.177343756F,    0.19140625F,
    0.205468744F,    0.219531253F,    0.233593747F,    0.247656241F,    0.26171875F,
    0.275781274F,    0.289843738F,    0.303906262F,    0.317968726F,    0.33203125F,
    0.346093744F,    0.360156238F,    0.374218762F,    0.388281226F,    0.40234375F,
    0.416406244F,    0.430468738F,    0.444531262F,    0.458593726F,    0.47265625F,
    0.486718714F,    0.500781238F,    0.514843702F,    0.528906226F,    0.54296875F,
    0.557031274F,    0.571093798F,    0.585156262F,    0.599218726F,    0.61328125F,
    0.627343774F,    0.641406298F,    0.655468762F,    0.669531226F,    0.68359375F,
    0.697656274F,    0.711718798F,    0.725781262F,    0.739843726F,    0.75390625F,
    0.767968774F,    0.782031238F,    0.796093762F,    0.810156226F,    0.82421875F,
    0.838281274F,    0.852343738F,    0.866406262F,    0.880468726F,    0.89453125F,
    0.908593774F,    0.922656238F,    0.936718762F,    0.950781226F,    0.96484375F,
    0.978906274F,    0.992968738F};

// The codes and all levels, those above, 0 and 1, in their order.
struct Nf4Tables {
  float codes[16] = {-1.0F,
                     -0.6961928009986877F,
                     -0.5250730514526367F,
                     -0.39491748809814453F,
                     -0.28444138169288635F,
                     -0.18477343022823334F,
                     -0.09105003625154495F,
                     0.0F,
                     0.07958029955625534F,
                     0.16093020141124725F,
                     0.24611230194568634F,
                     0.33791524171829224F,
                     0.44070982933044434F,
                     0.5626170039176941F,
                     0.7229568362236023F,
                     1.0F};
  float levels[256] = {};
};
constexpr Nf4Tables nf4_tables() {
  Nf4Tables tables;
  for (int i = 0; i < 127; ++i) {
    tables.levels[126 - i] = -kNf4HalfLevels[i];
    tables.levels[128 + i] = kNf4HalfLevels[i];
  }
  tables.levels[255] = 1;
  return tables;
}

}  // namespace mt

namespace mt::cpu {
// q and a of so many blocks, from x.  A block of zeros has the first code, times 0.
void nf4_quantize(std::uint8_t* codes, float* largest, const float* x, std::int64_t blocks);
// p of so many blocks, and s and o of every 256, from their a; o's sum is in f64.
void nf4_quantize_scales(std::uint8_t* levels, Nf4Scale* scales, const float* largest,
                         std::int64_t blocks);
// y: [rows, cols] of T, float or double; what it holds is computed in float.
template <class T>
void nf4_unpack(T* y, const std::uint8_t* packed, const Nf4Shape& shape);
}  // namespace mt::cpu

namespace mt::cuda {
// T: float, bf16 or fp16.
template <class T>
void nf4_unpack(T* y, const std::uint8_t* packed, const Nf4Shape& shape, cudaStream_t stream);
}  // namespace mt::cuda
