// kernels/packed_piece.cuh: a warp multiplies pieces of packed tiles (packed_tiles.h), which lie in
// shared memory, with rows of fp16 there.  Codes become numbers of fp16, exactly but for the
// largest of q6_k, which have 12 bits; scales of groups are whole numbers or E4M3 and go to these,
// or they are of 16 or 32 bits and go to sums, in f32.
#pragma once

#include <cuda_fp8.h>

#include "kernels/packed_tiles.h"
#include "kernels/ptx.cuh"

namespace mt::cuda::few {

// What all sums of a type are to be multiplied with: codes of E2M1 come 2^-14 times as large as
// they are, scales of nvfp4 2^6 times.
template <BlockType kType>
constexpr float kPieceFactor = kType == BlockType::mxfp4   ? 0x1p14f
                               : kType == BlockType::nvfp4 ? 0x1p8f
                                                           : 1.0f;

constexpr std::uint32_t two_halves(int x) {  // of a power of two times a number below 2048
  int exponent = 0, magnitude = x < 0 ? -x : x;
  while (magnitude >> (exponent + 1) != 0) ++exponent;
  const auto digits = static_cast<std::uint32_t>(magnitude) << 10 >> exponent & 0x3ff;
  const std::uint32_t half =
      (x < 0 ? 0x8000u : 0u) | static_cast<std::uint32_t>(exponent + 15) << 10 | digits;
  return half << 16 | half;
}

// (a & b) | c, in one instruction also where b and c are constants.
__device__ inline std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t y;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}
__device__ inline std::uint32_t subtract_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t y;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
__device__ inline std::uint32_t multiply_halves(std::uint32_t a, std::uint32_t b) {
  std::uint32_t y;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
__device__ inline std::uint32_t fma_halves(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t y;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}
__device__ inline float half_of(std::uint32_t two, int which) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> 16 * which)));
}
// Two of E4M3 in the low or the high half of a word.
__device__ inline std::uint32_t halves_of_e4m3(std::uint32_t word, int which) {
  const __half2_raw two =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(word >> 16 * which), __NV_E4M3);
  return two.x | static_cast<std::uint32_t>(two.y) << 16;
}
// 1024 and byte i of a word, twice.
__device__ inline std::uint32_t byte_in_halves(std::uint32_t word, int i) {
  return __byte_perm(word, 0x64646464, 0x4040 | i | i << 8);
}

// d = a b, not added to.
__device__ inline void first_mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
#pragma unroll
  for (float& x : d) x = 0;
  mma<__half>(d, a, b0, b1);
}

// Words at `at`, which is aligned to all of them or to 16 bytes.
template <int kWords>
__device__ void load_words(std::uint32_t* to, const unsigned char* at) {
  if constexpr (kWords % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(at + 4 * i);
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  } else if constexpr (kWords == 2) {
    const uint2 two = *reinterpret_cast<const uint2*>(at);
    to[0] = two.x, to[1] = two.y;
  } else {
    to[0] = *reinterpret_cast<const std::uint32_t*>(at);
  }
}

// The scales of a row's groups of half a piece, as they lie.
template <BlockType kType>
struct RowScales {
  static constexpr TileForm kForm = tile_form(kType);
  static constexpr int kBits = kForm.scales == TileScales::f32         ? 32
                               : kForm.scales == TileScales::f16       ? 16
                               : kForm.scales == TileScales::bf16      ? 16
                               : kForm.scales == TileScales::f16_least ? 16
                                                                       : 8;
  static constexpr int kBegin = kForm.scales == TileScales::six    ? 32
                                : kForm.scales == TileScales::q6   ? 16
                                : kForm.scales == TileScales::e4m3 ? 64
                                                                   : 0;
  static constexpr int kGroups = kForm.groups() / 2;
  std::uint32_t words[kGroups * kBits / 32];

  __device__ RowScales(const unsigned char* scales, int row, int half) {
    load_words<kGroups * kBits / 32>(words,
                                     scales + kBegin + (2 * row + half) * (kGroups * kBits / 8));
  }
  // Multiplies a sum over a group of the half.
  __device__ float scale(int group) const {
    if constexpr (kForm.scales == TileScales::f32) {
      return __uint_as_float(is_int4(kType) ? words[group] & ~0x1ffu : words[group]);
    } else {
      const std::uint32_t two = words[group / 2];
      if constexpr (kForm.scales == TileScales::bf16)
        return __uint_as_float(group % 2 ? two & 0xffff0000u : two << 16);
      return half_of(two, group % 2);
    }
  }
  // What is subtracted from 1024 or 64 and the code of whole numbers that have no scale among them.
  __device__ std::uint32_t zero(int group, bool of_1024) const {
    const std::uint32_t base = two_halves(of_1024 ? 1024 : 64);
    if constexpr (is_int4(kType)) {
      const std::uint32_t zeros = __byte_perm(words[group], 0, 0x1010);
      return of_1024 ? and_or(zeros >> 4, 0x001f001fu, base) : and_or(zeros, 0x01f001f0u, base);
    }
    return of_1024 ? two_halves(1024 + kForm.middle) : two_halves(64 + kForm.middle);
  }
  // A number of a group and 1024 or 64 is multiplied with `scale`, and what belongs to that is
  // added to it then, as halves.
  struct OfNumbers {
    std::uint32_t scale, added_to_1024 = 0, added_to_64 = 0;
  };
  __device__ OfNumbers of_numbers(int group) const {
    const std::uint32_t word = words[group / 4];
    if constexpr (kForm.scales == TileScales::e4m3) {
      const std::uint32_t two =
          multiply_halves(halves_of_e4m3(word, group / 2 % 2), two_halves(64));
      return {__byte_perm(two, 0, group % 2 ? 0x3232 : 0x1010)};
    }
    constexpr bool kSigned = kForm.scales == TileScales::q6;
    const std::uint32_t scale =
        subtract_halves(byte_in_halves(word, group % 4), two_halves(kSigned ? 1152 : 1024));
    return {scale, multiply_halves(scale, two_halves(-1024 - kForm.middle)),
            multiply_halves(scale, two_halves(-64 - kForm.middle))};
  }
};

// Codes of half a piece, four times two steps, of a row, which a thread has.
template <BlockType kType>
struct RowCodes {
  static constexpr TileForm kForm = tile_form(kType);
  static constexpr bool kScaled = kForm.scales == TileScales::six ||
                                  kForm.scales == TileScales::q6 ||
                                  kForm.scales == TileScales::e4m3;
  std::uint32_t words[kForm.bits == 8 ? 8 : 4], high[kForm.bits == 6 ? 2 : 1];

  __device__ RowCodes(const unsigned char* piece, int lane, int half) {
    if constexpr (kForm.bits == 8) {
      load_words<4>(words, piece + half * 1024 + lane * 16);
      load_words<4>(words + 4, piece + half * 1024 + 512 + lane * 16);
    } else {
      load_words<4>(words, piece + half * 512 + lane * 16);
      if constexpr (kForm.bits == 5) load_words<1>(high, piece + 1024 + lane * 8 + half * 4);
      if constexpr (kForm.bits == 6) load_words<2>(high, piece + 1024 + lane * 16 + half * 8);
    }
  }
  // Pair p of two steps u of the half, two numbers of fp16.
  __device__ std::uint32_t pair(int u, int p, const RowScales<kType>& scales) const {
    if constexpr (kForm.bits == 8) {
      const std::uint32_t word = words[2 * u + p / 2];
      if constexpr (kForm.codes == TileCodes::e4m3) return halves_of_e4m3(word, p % 2);
      return subtract_halves(__byte_perm(word, 0x64646464, p % 2 ? 0x4342 : 0x4140),
                             two_halves(1024 + 128));
    } else if constexpr (kForm.codes == TileCodes::e2m1) {
      const std::uint32_t word = words[u];
      std::uint32_t number = 0;
      if (p == 0) number = word & 0x8e008e00u;
      if (p == 1) number = word << 3 & 0x8e008e00u;
      if (p == 2) number = and_or(word << 6, 0x0e000e00u, word << 1 & 0x80008000u);
      if (p == 3) number = and_or(word << 9, 0x0e000e00u, word << 2 & 0x80008000u);
      if constexpr (kScaled) return multiply_halves(number, scales.of_numbers(2 * u + p / 2).scale);
      return number;
    } else {
      // The code in the low bits of 1024, where that times a scale is a number of fp16, or of 64.
      constexpr bool kFromBit0 = kForm.scales != TileScales::q6;
      const bool at_bit_0 = kFromBit0 && p % 2 == 0;
      const int bit = at_bit_0 ? 0 : 4;  // where the code is to be
      const auto to_bit = [](std::uint32_t bits, int from, int to) {
        return from < to ? bits << (to - from) : bits >> (from - to);
      };
      const std::uint32_t low =
          kFromBit0 ? to_bit(words[u], p / 2 * 8, 0) : to_bit(words[u], 4 * p, 4);
      std::uint32_t number = and_or(low, 0x000f000fu << bit, two_halves(at_bit_0 ? 1024 : 64));
      if constexpr (kForm.bits == 5)
        number = and_or(to_bit(high[0], 4 * u + p, bit + 4), 0x00010001u << (bit + 4), number);
      if constexpr (kForm.bits == 6)
        number = and_or(to_bit(high[u / 2], 8 * (u % 2) + 2 * p, bit + 4), 0x00030003u << (bit + 4),
                        number);
      if constexpr (kScaled) {
        const auto of = scales.of_numbers(kForm.group == 16 ? 2 * u + p / 2 : u);
        return fma_halves(number, of.scale, at_bit_0 ? of.added_to_1024 : of.added_to_64);
      }
      return subtract_halves(number, scales.zero(32 * u / kForm.group, at_bit_0));
    }
  }
};

// Rows of x in shared memory, fp16: where a thread begins to load them; and, of types that have a
// least, sums of each 32 of them, by pieces eight, and what is left of their rounding.
struct RowsHeld {
  const __half* x;
  const std::uint32_t* totals;
};

// sums += the piece's rows times x: `one` has rows 0 to 7, `two` rows 8 to 15.
template <BlockType kType>
__device__ void multiply_piece(float (&sums)[4], const unsigned char* one, const unsigned char* two,
                               const RowsHeld& rows, int column, int lane) {
  constexpr TileForm kForm = tile_form(kType);
  // How many of a half's steps there are before a scale goes to their sums; 16: it goes to the
  // piece's.
  constexpr int kSteps = kForm.scales == TileScales::e4m3 ? 8
                         : RowCodes<kType>::kScaled       ? 16
                                                          : kForm.group / 16;
  constexpr int kSums = kSteps >= 8 ? 2 : 1;  // by turns, so that a product waits for none
  const int row = lane / 4, c = lane % 4;
  const unsigned char *const of_one = one + kForm.scales_at(), *const of_two =
                                                                   two + kForm.scales_at();
  float part[kSums][4];
  const auto add_part = [&](float d0, float d1) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float sum = kSums == 2 ? part[0][i] + part[kSums - 1][i] : part[0][i];
      sums[i] = fmaf(i < 2 ? d0 : d1, sum, sums[i]);
    }
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowScales<kType> scales[2] = {{of_one, row, half}, {of_two, row, half}};
    const RowCodes<kType> codes[2] = {{one, lane, half}, {two, lane, half}};
    if (kSteps < 16 || half == 0) {
#pragma unroll
      for (auto& four : part)
#pragma unroll
        for (float& x : four) x = 0;
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      std::uint32_t x[4];
      load_matrices(x, rows.x + column + 128 * half + 32 * u);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const std::uint32_t w[4] = {
            codes[0].pair(u, 2 * s, scales[0]), codes[1].pair(u, 2 * s, scales[1]),
            codes[0].pair(u, 2 * s + 1, scales[0]), codes[1].pair(u, 2 * s + 1, scales[1])};
        const int step = 2 * u + s;
        if (kSteps < 8 && step % kSteps == 0)
          first_mma(part[0], w, x[2 * s], x[2 * s + 1]);
        else
          mma<__half>(part[s % kSums], w, x[2 * s], x[2 * s + 1]);
        if constexpr (kSteps < 16 && kForm.scales != TileScales::e4m3)
          if (step % kSteps == kSteps - 1)
            add_part(scales[0].scale(16 * step / kForm.group),
                     scales[1].scale(16 * step / kForm.group));
      }
    }
    if constexpr (kForm.scales == TileScales::e4m3)
      add_part(*reinterpret_cast<const float*>(of_one + 8 * row + 4 * half),
               *reinterpret_cast<const float*>(of_two + 8 * row + 4 * half));
  }
  if constexpr (kSteps == 16) {
    constexpr int kEach = kForm.scales == TileScales::six ? 4 : 2;  // bytes
    add_part(half_of(*reinterpret_cast<const std::uint16_t*>(of_one + kEach * row), 0),
             half_of(*reinterpret_cast<const std::uint16_t*>(of_two + kEach * row), 0));
  }
  if constexpr (kForm.has_least()) {
    // The least numbers of eight groups are multiplied with both halves of the totals.
    std::uint32_t least[4];
    if constexpr (kForm.scales == TileScales::six) {
      const auto bytes = [&](const unsigned char* of) {
        const std::uint32_t two_bytes =
            *reinterpret_cast<const std::uint16_t*>(of + 96 + 8 * row + 2 * c);
        return subtract_halves(__byte_perm(two_bytes, 0x64646464, 0x4140), two_halves(1024));
      };
      least[0] = bytes(of_one), least[1] = bytes(of_two);
    } else {
      const int at = 16 * kForm.groups() + 16 * row + 4 * c;
      least[0] = *reinterpret_cast<const std::uint32_t*>(of_one + at);
      least[1] = *reinterpret_cast<const std::uint32_t*>(of_two + at);
    }
    least[2] = least[0], least[3] = least[1];
    const std::uint32_t* const totals = rows.totals + column / 32;
    if constexpr (kForm.scales == TileScales::six) {
      const float d[2] = {half_of(*reinterpret_cast<const std::uint32_t*>(of_one + 4 * row), 1),
                          half_of(*reinterpret_cast<const std::uint32_t*>(of_two + 4 * row), 1)};
      float of_least[4];
      first_mma(of_least, least, totals[c], totals[c + 4]);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = fmaf(-d[i / 2], of_least[i], sums[i]);
    } else {
      mma<__half>(sums, least, totals[c], totals[c + 4]);
    }
  }
}

}  // namespace mt::cuda::few
