// The types of GGUF files whose elements lie in blocks: so many elements of a row, one behind
// another, in so many bytes.  Formulas are ggml's (ggml-common.h, ggml-quants.c), in float32.
// d and m are f16, q are whole numbers of as many bits as the name says, lo and hi a byte's low and
// high four bits.
//   q4_0  32  d, 16 bytes            d (q - 8);  lo of byte j is element j, hi j + 16
//   q4_1  32  d, m, 16 bytes         d q + m
//   q5_0  32  d, u32 h, 16 bytes     d (q - 16);  bit j of h is element j's bit 4
//   q5_1  32  d, m, u32 h, 16 bytes  d q + m
//   q8_0  32  d, 32 i8               d q
//   q2_k  256  16 bytes s, 64 bytes, d, m    d lo(s) q - m hi(s), an s per 16
//   q3_k  256  32 bytes h, 64 bytes, 12 bytes s, d    d (s - 32) (q - (h ? 0 : 4)), an s per 16
//   q4_k  256  d, m, 12 bytes s, 128 bytes   d s q - m t, an s and a t per 32
//   q5_k  256  d, m, 12 bytes s, 32 bytes h, 128 bytes    the same
//   q6_k  256  128 bytes, 64 bytes h, 16 i8 s, d    d s (q - 32), an s per 16
//   iq4_nl  32  d, 16 bytes          d T(q), T sixteen numbers
//   iq4_xs  256  d, u16 h, 4 bytes s, 128 bytes    d (s - 32) T(q), an s per 32
//   tq1_0  256  48 bytes, 4 bytes, d    d (q - 1), five q of three values a byte
//   tq2_0  256  64 bytes, d          d (q - 1)
//   mxfp4  32  u8 e, 16 bytes        2^(e - 127) E(q), E the sixteen numbers of E2M1
//   nvfp4  64  4 bytes s, 32 bytes   s E(q), s of E4M3 without a sign, one per 16
//   iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s    see gguf_grid_blocks.h
// Where bits of an element or a scale lie is said in gguf_blocks.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mt {

enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
};

inline constexpr std::int64_t kShortGgufBlock = 32, kLongGgufBlock = 256;  // elements

struct GgufBlocks {
  GgufType type;
  std::string_view name;
  std::int64_t elements;  // of a block
  std::size_t bytes;
  void (*dequantize)(float* elements, const std::byte* block);  // of one block
};

// Null for a type of numbers on their own, and for names that are none of the table's.
const GgufBlocks* gguf_blocks(GgufType type);
const GgufBlocks* gguf_blocks(std::string_view name);

// The elements of `blocks`, which are whole.  False if one is not a finite number, as its block's
// scale is none.
bool dequantize(const GgufBlocks& of, float* elements, std::span<const std::byte> blocks);
// What dequantize() says of blocks, without their elements.
bool has_finite_scales(const GgufBlocks& of, std::span<const std::byte> blocks);

// What ggml calls a type, in small letters, or its number.
std::string name_of(GgufType type);

}  // namespace mt
