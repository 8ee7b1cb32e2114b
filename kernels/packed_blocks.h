// What blocks of few bits (kernels/packed_rows.h) are made of, expanded to whole numbers of 16
// bits, or floats, and their scales, in the ways of several instruction sets; for
// packed_rows_cpu.cpp, whose functions for each of these all of it becomes a part of.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/packed_rows.h"
#include "kernels/vector_math.h"

namespace mt::cpu::blocks {

using simd::Ints;

constexpr std::int64_t kPart = 32;  // numbers

#define INLINE [[gnu::always_inline]] inline  // until the file that includes this undefines it

// Without a branch, unlike base/half.h, of a number that is finite.
INLINE float half(const std::uint8_t* at) {
  constexpr std::uint32_t kOne = 1u << 23;  // of an exponent
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  // All bits of a denormal: a multiple of 2^-24, beside 2^-14.
  const auto small = static_cast<std::uint32_t>(static_cast<std::int32_t>(magnitude - kOne) >> 31);
  const float number = std::bit_cast<float>(magnitude + 112 * kOne + (small & kOne)) -
                       std::bit_cast<float>(small & std::bit_cast<std::uint32_t>(0x1p-14f));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) |
                              static_cast<std::uint32_t>(bits & 0x8000) << 16);
}

using Shorts [[gnu::vector_size(2 * kPart)]] = std::int16_t;  // of a part
using HalfShorts [[gnu::vector_size(kPart)]] = std::int16_t;

template <class Vector>
INLINE Vector load_as(const auto* at) {
  Vector v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
INLINE Shorts load(const std::int16_t* x) { return load_as<Shorts>(x); }
INLINE void store(std::int16_t* to, Shorts v) { std::memcpy(to, &v, sizeof v); }

INLINE Shorts join(HalfShorts a, HalfShorts b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}
INLINE Shorts join(int a, int b) {
  return join(HalfShorts{} + static_cast<std::int16_t>(a),
              HalfShorts{} + static_cast<std::int16_t>(b));
}

using Bytes [[gnu::vector_size(kPart)]] = std::uint8_t;
using SignedBytes [[gnu::vector_size(kPart)]] = std::int8_t;

// GCC alone lets instructions of a set stand where only the callers that they are inlined into have
// it.
#if defined(__x86_64__) && !defined(__clang__)
#define MT_PACKED_ASM
#endif

// What instruction sets do otherwise than the compiler would: bytes of a part as numbers of 16
// bits, and sums of products of pairs of these.  kTogether: how many rows read a row of x once.
struct Plain {
#if defined(MT_PACKED_ASM)
  static constexpr int kTogether = 1;  // for x86 without AVX2: little code, which compiles soon
#else
  static constexpr int kTogether = 4;
#endif

  INLINE static Shorts wide(const std::uint8_t* at) {
    return __builtin_convertvector(load_as<Bytes>(at), Shorts);
  }
  INLINE static Shorts wide(const std::int8_t* at) {
    return __builtin_convertvector(load_as<SignedBytes>(at), Shorts);
  }
  // The low four bits of 16 bytes, then the high ones.
  INLINE static Shorts halves(const std::uint8_t* at) {
    using HalfBytes [[gnu::vector_size(kPart / 2)]] = std::uint8_t;
    const auto bytes = __builtin_convertvector(load_as<HalfBytes>(at), HalfShorts);
    return join(bytes & 15, bytes >> 4);
  }
  // Twice the numbers of E2M1 that halves() are the codes of.
  INLINE static Shorts e2m1(const std::uint8_t* at) {
    const Shorts code = halves(at), size = code & 7;
    const Shorts twice = size + ((size > 4) & (size - 4)) + ((size == 7) & 2);
    return (code & 8) != 0 ? -twice : twice;
  }
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {
    return add(sums, load(w), p);
  }
  INLINE static Ints add(Ints sums, Shorts w, Shorts p) {
    for (int i = 0; i < kLanes; ++i) sums[i] += w[2 * i] * p[2 * i] + w[2 * i + 1] * p[2 * i + 1];
    return sums;
  }
  INLINE static float half(const std::uint8_t* at) { return blocks::half(at); }
  // Spreads bytes, one for each of eight parts: of scales each becomes twice 16 bits, of whole
  // numbers m times as much.
  INLINE static void spread(std::int32_t* scales, float* leasts, std::uint64_t of_scales,
                            std::uint64_t of_leasts, float m) {
    for (int j = 0; j < 8; ++j) {
      scales[j] = static_cast<std::int32_t>(of_scales >> 8 * j & 255) * 0x10001;
      leasts[j] = m * static_cast<float>(of_leasts >> 8 * j & 255);
    }
  }
  // Times such a scale.
  INLINE static Shorts times(Shorts v, const std::int32_t* scale) {
    return v * static_cast<std::int16_t>(*scale);
  }
  // Numbers below 16 and the fifth bits of all, which are 32 in four bytes.
  INLINE static Shorts with_fifth(Shorts q, const std::uint8_t* bits) {
    constexpr Shorts kBits = {1,    2,    4,    8,     16,     32,   64,   128,  256,   512,   1024,
                              2048, 4096, 8192, 16384, -32768, 1,    2,    4,    8,     16,    32,
                              64,   128,  256,  512,   1024,   2048, 4096, 8192, 16384, -32768};
    std::int16_t high[2];
    std::memcpy(high, bits, sizeof high);
    return q | (((join(high[0], high[1]) & kBits) != 0) & 16);
  }
  INLINE static float sum_of_lanes(simd::Floats v) { return simd::sum_of_lanes(v); }
};

#if defined(MT_PACKED_ASM)
struct Avx2 : Plain {
  static constexpr int kTogether = 4;
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {
    return add(sums, load(w), p);
  }
  INLINE static Ints add(Ints sums, Shorts w, Shorts p) {
    HalfShorts halves[2], of_w[2];
    std::memcpy(halves, &p, sizeof p);
    std::memcpy(of_w, &w, sizeof w);
    for (int i = 0; i < 2; ++i) asm("vpmaddwd %1, %0, %0" : "+x"(halves[i]) : "x"(of_w[i]));
    return sums + load_as<Ints>(halves);
  }
};

struct Vnni {
  static constexpr int kTogether = 4;
  INLINE static Shorts wide(const std::uint8_t* at) {
    Shorts v;
    asm("vpmovzxbw %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const std::uint8_t(*)[kPart]>(at)));
    return v;
  }
  INLINE static Shorts wide(const std::int8_t* at) {
    Shorts v;
    asm("vpmovsxbw %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const std::int8_t(*)[kPart]>(at)));
    return v;
  }
  INLINE static Shorts halves(const std::uint8_t* at) {
    HalfShorts bytes, high;
    Shorts v;
    asm("vpmovzxbw %1, %0"
        : "=v"(bytes)
        : "m"(*reinterpret_cast<const std::uint8_t(*)[kPart / 2]>(at)));
    asm("vpsrlw $4, %1, %0" : "=v"(high) : "v"(bytes));
    asm("vinserti64x4 $1, %2, %g1, %0" : "=v"(v) : "v"(bytes), "v"(high));
    return v & 15;
  }
  INLINE static Shorts e2m1(const std::uint8_t* at) {
    using HalfBytes [[gnu::vector_size(kPart / 2)]] = std::uint8_t;
    constexpr HalfBytes kTwice = {0, 1, 2, 3, 4, 6, 8, 12, 0, 255, 254, 253, 252, 250, 248, 244};
    const auto codes = load_as<HalfBytes>(at);
    HalfBytes low, high;
    asm("vpshufb %1, %2, %0" : "=x"(low) : "x"(codes & 15), "x"(kTwice));
    asm("vpshufb %1, %2, %0" : "=x"(high) : "x"(codes >> 4), "x"(kTwice));
    Bytes both;
    asm("vinserti128 $1, %2, %t1, %t0" : "=x"(both) : "x"(low), "x"(high));
    Shorts v;
    asm("vpmovsxbw %1, %0" : "=v"(v) : "x"(both));
    return v;
  }
  INLINE static Ints add(Ints sums, const std::int16_t* w, Shorts p) {  // without saturation
    asm("vpdpwssd %1, %2, %0"
        : "+v"(sums)
        : "m"(*reinterpret_cast<const std::int16_t(*)[kPart]>(w)), "v"(p));
    return sums;
  }
  INLINE static Ints add(Ints sums, Shorts w, Shorts p) {
    asm("vpdpwssd %1, %2, %0" : "+v"(sums) : "v"(w), "v"(p));
    return sums;
  }
  INLINE static float half(const std::uint8_t* at) {
    using Halves [[gnu::vector_size(16)]] = std::uint16_t;
    using Numbers [[gnu::vector_size(16)]] = float;
    Halves halves = {};
    std::memcpy(&halves, at, 2);
    Numbers numbers;
    asm("vcvtph2ps %1, %0" : "=v"(numbers) : "v"(halves));
    return numbers[0];
  }
  INLINE static void spread(std::int32_t* scales, float* leasts, std::uint64_t of_scales,
                            std::uint64_t of_leasts, float m) {
    static constexpr Bytes kTwice = {0,   128, 0,   128, 1,   128, 1,   128, 2,   128, 2,
                                     128, 3,   128, 3,   128, 4,   128, 4,   128, 5,   128,
                                     5,   128, 6,   128, 6,   128, 7,   128, 7,   128};
    Bytes bytes;
    asm("vpbroadcastq %1, %0" : "=v"(bytes) : "r"(of_scales));
    asm("vpshufb %1, %0, %0" : "+v"(bytes) : "m"(kTwice));
    std::memcpy(scales, &bytes, sizeof bytes);
    Eight numbers, of_m;
    asm("vmovq %1, %x0" : "=v"(numbers) : "r"(of_leasts));
    asm("vpmovzxbd %x0, %0" : "+v"(numbers));
    asm("vcvtdq2ps %0, %0" : "+v"(numbers));
    asm("vbroadcastss %1, %0" : "=v"(of_m) : "v"(m));
    asm("vmulps %1, %0, %0" : "+v"(numbers) : "v"(of_m));
    std::memcpy(leasts, &numbers, sizeof numbers);
  }
  INLINE static Shorts times(Shorts v, const std::int32_t* scale) {
    Shorts of;
    asm("vpbroadcastd %1, %0" : "=v"(of) : "m"(*scale));
    return v * of;
  }
  INLINE static Shorts with_fifth(Shorts q, const std::uint8_t* bits) {
    std::uint32_t high, mask;
    std::memcpy(&high, bits, sizeof high);
    asm("kmovd %1, %0" : "=Yk"(mask) : "r"(high));
    asm("vpaddw %2, %0, %0 %{%1%}" : "+v"(q) : "Yk"(mask), "v"(Shorts{} + std::int16_t{16}));
    return q;
  }
  INLINE static float sum_of_lanes(simd::Floats v) {  // in the order of simd::sum_of_lanes()
    using Four [[gnu::vector_size(16)]] = float;
    Eight high, eight;
    Four upper, four;
    asm("vextractf64x4 $1, %1, %0" : "=v"(high) : "v"(v));
    asm("vaddps %t1, %2, %0" : "=v"(eight) : "v"(v), "v"(high));
    asm("vextractf32x4 $1, %1, %0" : "=v"(upper) : "v"(eight));
    asm("vaddps %x1, %2, %0" : "=v"(four) : "v"(eight), "v"(upper));
    return (four[0] + four[2]) + (four[1] + four[3]);
  }

 private:
  using Eight [[gnu::vector_size(32)]] = float;
};
#endif

// Expanded: what the blocks of a row are made of.
struct Expanded {
  std::int16_t* q;  // [k]; of E4M3 its numbers, as floats
  float* d;         // of each block, or half of a part of nvfp4
  float* least;     // of each part, where the type has one

  INLINE void put(std::int64_t i, Shorts v) const { store(q + i, v); }
};
// What blocks are expanded to is Expanded, or something else with its d and least whose put() takes
// the numbers of each part, from the i-th on.

// Expands a block of q4_0, q4_1, q5_0 or q5_1.
template <class Machine, bool kFive, bool kLeast>
INLINE void expand_short(const auto& to, const std::uint8_t* block) {
  constexpr std::int16_t kMiddle = kLeast ? 0 : kFive ? 16 : 8;
  *to.d = Machine::half(block);
  if constexpr (kLeast) *to.least = -Machine::half(block + 2);
  block += kLeast ? 4 : 2;
  Shorts q = Machine::halves(block + (kFive ? 4 : 0));
  if constexpr (kFive) q = Machine::with_fifth(q, block);
  to.put(0, q - kMiddle);
}

template <class Machine>
INLINE void expand_q8_0(const auto& to, const std::uint8_t* block) {
  *to.d = Machine::half(block);
  to.put(0, Machine::wide(reinterpret_cast<const std::int8_t*>(block + 2)));
}

template <class Machine, bool kFive>
INLINE void expand_q4_k_or_q5_k(const auto& to, const std::uint8_t* block) {
  // Six bits each of the scales and then of the leasts of eight parts, from twelve bytes.
  constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
  std::uint32_t in[3];
  std::memcpy(in, block + 4, sizeof in);
  const auto eight = [](std::uint32_t first, std::uint32_t last) __attribute__((always_inline)) {
    return first | static_cast<std::uint64_t>(last) << 32;
  };
  std::int32_t scales[8];
  Machine::spread(scales, to.least, eight(in[0] & kSix, (in[2] & kFour) | (in[0] >> 6 & kTwo) << 4),
                  eight(in[1] & kSix, (in[2] >> 4 & kFour) | (in[1] >> 6 & kTwo) << 4),
                  Machine::half(block + 2));
  *to.d = Machine::half(block);
  const std::uint8_t* const low = block + 16 + (kFive ? 32 : 0);
  const Shorts high = kFive ? Machine::wide(block + 16) : Shorts{};
  for (int c = 0; c < 4; ++c) {
    const Shorts bytes = Machine::wide(low + 32 * c);
    Shorts first = bytes & 15, second = bytes >> 4;
    if constexpr (kFive) {
      first |= (high >> 2 * c & 1) << 4;
      second |= (high >> (2 * c + 1) & 1) << 4;
    }
    to.put(64 * c, Machine::times(first, scales + 2 * c));
    to.put(64 * c + 32, Machine::times(second, scales + 2 * c + 1));
  }
}

template <class Machine>
INLINE void expand_q6_k(const auto& to, const std::uint8_t* block) {
  *to.d = Machine::half(block + 208);
  const auto* const scales = reinterpret_cast<const std::int8_t*>(block + 192);
  for (int h = 0; h < 2; ++h) {
    const Shorts high = Machine::wide(block + 128 + 32 * h);
    for (int part = 0; part < 4; ++part) {
      const Shorts bytes = Machine::wide(block + 64 * h + 32 * (part % 2));
      const Shorts q = (part < 2 ? bytes & 15 : bytes >> 4) | (high >> 2 * part & 3) << 4;
      const std::int8_t* const scale = scales + 8 * h + 2 * part;
      to.put(128 * h + 32 * part, (q - 32) * join(scale[0], scale[1]));
    }
  }
}

// Expands a block of int4 that has so many numbers.
template <class Machine>
INLINE void expand_int4(const auto& to, const std::uint8_t* block, std::int64_t size) {
  std::uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  *to.d = block[3] != 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)
                        : Machine::half(block);
  const auto zero = static_cast<std::int16_t>(block[2]);
  for (std::int64_t i = 0; i < size; i += kPart)
    to.put(i, Machine::halves(block + 4 + i / 2) - zero);
}

template <class Machine>
INLINE void expand_int8(const auto& to, const std::uint8_t* block) {
  std::memcpy(to.d, block, sizeof *to.d);
  for (std::int64_t i = 0; i < 128; i += kPart)
    to.put(i, Machine::wide(reinterpret_cast<const std::int8_t*>(block + 4 + i)));
}

// An E4M3's bits are those of a float of another bias.
INLINE void expand_e4m3(const Expanded& to, const std::uint8_t* block) {
  using Codes [[gnu::vector_size(kLanes)]] = std::uint8_t;
  using Wide [[gnu::vector_size(2 * kLanes)]] = std::uint16_t;
  using Bits [[gnu::vector_size(4 * kLanes)]] = std::uint32_t;
  std::memcpy(to.d, block, sizeof *to.d);
  for (std::int64_t i = 0; i < 128; i += kLanes) {
    // By way of 16 bits, as GCC takes bytes one by one to 32.
    const auto wide = __builtin_convertvector(load_as<Codes>(block + 4 + i), Wide);
    const Bits code = __builtin_convertvector(wide, Bits);
    const Bits bits = (code & 0x7f) << 20 | (code & 0x80) << 24;
    const simd::Floats numbers = std::bit_cast<simd::Floats>(bits) * 0x1p120f;
    std::memcpy(to.q + 2 * i, &numbers, sizeof numbers);
  }
}

template <class Machine>
INLINE void expand_mxfp4(const Expanded& to, const std::uint8_t* block) {
  const std::uint32_t b = block[0];  // half of 2^(b - 127) is 2^(b - 128), denormal of 0 and 1
  *to.d = std::bit_cast<float>(b < 2 ? 0x200000U << b : (b - 1) << 23);
  store(to.q, Machine::e2m1(block + 1));
}

template <class Machine>
INLINE void expand_nvfp4(const Expanded& to, const std::uint8_t* block) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  const bool divides = block[4] != 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t code = block[8 + i];
    const float t = std::bit_cast<float>((code & 0x7f) << 20 | (code & 0x80) << 24) * 0x1p120f;
    to.d[i] = (divides ? t / scale : t * scale) * 0.5f;
  }
  for (int i = 0; i < 4; ++i) store(to.q + kPart * i, Machine::e2m1(block + 16 + kPart / 2 * i));
}

// How many of Expanded's d a block has.
constexpr std::int64_t scales_of(BlockType type) {
  return type == BlockType::nvfp4 ? form_of(type).elements / (kPart / 2) : 1;
}

template <BlockType kType>
constexpr bool kHasLeast = kType == BlockType::q4_1 || kType == BlockType::q5_1 ||
                           kType == BlockType::q4_k || kType == BlockType::q5_k;

template <class Machine, BlockType kType>
INLINE void expand_block(const auto& to, const std::uint8_t* block) {
  if constexpr (kType == BlockType::q4_0) expand_short<Machine, false, false>(to, block);
  if constexpr (kType == BlockType::q4_1) expand_short<Machine, false, true>(to, block);
  if constexpr (kType == BlockType::q5_0) expand_short<Machine, true, false>(to, block);
  if constexpr (kType == BlockType::q5_1) expand_short<Machine, true, true>(to, block);
  if constexpr (kType == BlockType::q8_0) expand_q8_0<Machine>(to, block);
  if constexpr (kType == BlockType::q4_k) expand_q4_k_or_q5_k<Machine, false>(to, block);
  if constexpr (kType == BlockType::q5_k) expand_q4_k_or_q5_k<Machine, true>(to, block);
  if constexpr (kType == BlockType::q6_k) expand_q6_k<Machine>(to, block);
  if constexpr (kType == BlockType::int4_32 || kType == BlockType::int4_64 ||
                kType == BlockType::int4_128)
    expand_int4<Machine>(to, block, form_of(kType).elements);
  if constexpr (kType == BlockType::int8) expand_int8<Machine>(to, block);
  if constexpr (kType == BlockType::e4m3) expand_e4m3(to, block);
  if constexpr (kType == BlockType::mxfp4) expand_mxfp4<Machine>(to, block);
  if constexpr (kType == BlockType::nvfp4) expand_nvfp4<Machine>(to, block);
}

// How many 16 bits of room a number takes that is expanded from such a block; of a matrix, the most
// that a number of its rows takes.
constexpr std::int64_t room_of(BlockType type) { return type == BlockType::e4m3 ? 2 : 1; }
inline std::int64_t room_of(const PackedRows& w) {
  std::int64_t most = 1;
  for (const PackedRows::Run& run : w.runs()) most = std::max(most, room_of(run.block_type()));
  return most;
}

// The block that comes some time after this one.
template <std::int64_t kBytes>
INLINE void prefetch(const std::uint8_t* block) {
  __builtin_prefetch(block + 2048);
  if (kBytes > 64) __builtin_prefetch(block + 2112);
  if (kBytes > 128) __builtin_prefetch(block + 2176);
}

template <class Machine, BlockType kType>
INLINE void expand_row(Expanded to, const std::uint8_t* blocks, std::int64_t k) {
  constexpr BlockForm kForm = form_of(kType);
  for (std::int64_t i = 0; i < k; i += kForm.elements) {
    prefetch<kForm.bytes>(blocks);
    expand_block<Machine, kType>(to, blocks);
    blocks += kForm.bytes;
    to.q += room_of(kType) * kForm.elements;
    to.d += scales_of(kType);
    to.least += kForm.elements / kPart;
  }
}

// body.operator()<type>() of a run's type.
template <class Body>
INLINE void with_type(BlockType type, const Body& body) {
  switch (type) {
    case BlockType::q4_0:
      return body.template operator()<BlockType::q4_0>();
    case BlockType::q4_1:
      return body.template operator()<BlockType::q4_1>();
    case BlockType::q5_0:
      return body.template operator()<BlockType::q5_0>();
    case BlockType::q5_1:
      return body.template operator()<BlockType::q5_1>();
    case BlockType::q8_0:
      return body.template operator()<BlockType::q8_0>();
    case BlockType::q4_k:
      return body.template operator()<BlockType::q4_k>();
    case BlockType::q5_k:
      return body.template operator()<BlockType::q5_k>();
    case BlockType::q6_k:
      return body.template operator()<BlockType::q6_k>();
    case BlockType::int4_32:
      return body.template operator()<BlockType::int4_32>();
    case BlockType::int4_64:
      return body.template operator()<BlockType::int4_64>();
    case BlockType::int4_128:
      return body.template operator()<BlockType::int4_128>();
    case BlockType::int8:
      return body.template operator()<BlockType::int8>();
    case BlockType::e4m3:
      return body.template operator()<BlockType::e4m3>();
    case BlockType::mxfp4:
      return body.template operator()<BlockType::mxfp4>();
    case BlockType::nvfp4:
      return body.template operator()<BlockType::nvfp4>();
  }
}

// Room for the parts of some rows of a matrix.
class Room {
 public:
  Room(std::int64_t rows, const PackedRows& w)
      : width_(room_of(w) * w.cols()),
        parts_(w.cols() / kPart),
        q_(std::make_unique_for_overwrite<std::int16_t[]>(static_cast<std::size_t>(rows * width_))),
        scales_(
            std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(2 * rows * parts_))) {}
  Expanded row(std::int64_t i) const {
    float* const scales = scales_.get() + 2 * i * parts_;
    return {q_.get() + i * width_, scales, scales + parts_};
  }

 private:
  std::int64_t width_, parts_;
  std::unique_ptr<std::int16_t[]> q_;
  std::unique_ptr<float[]> scales_;
};

}  // namespace mt::cpu::blocks
