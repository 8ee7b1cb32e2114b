// The numbers of packed_tiles.h one by one, for the CPU and for kernels that unpack them.
#pragma once

#include <cstring>

#include "kernels/packed_tiles.h"

#ifdef __CUDACC__
#define MT_BOTH __host__ __device__ inline
#else
#define MT_BOTH inline
#endif

namespace mt::tiles {

template <class Word>
MT_BOTH Word load_at(const std::uint8_t* at) {
  return *reinterpret_cast<const Word*>(at);
}

MT_BOTH float float_of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}
// The number that the bits of a finite fp16 are.
MT_BOTH float float_of_half(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  // A number of the same digits with the bias of f32, at 2^-112 of it: denormals, too.
  return float_of_bits(sign | magnitude << 13) * 0x1p112f;
}
MT_BOTH float float_of_e4m3(std::uint32_t bits) {
  return float_of_bits((bits & 0x80) << 24 | (bits & 0x7f) << 20) * 0x1p120f;
}

// Where a number of a piece is.
struct Place {
  int row, thread, step, pair, odd;
  // At column k.
  MT_BOTH Place(int of_row, int k)
      : row(of_row),
        thread(4 * of_row + k % 8 / 2),
        step(k / 16),
        pair(k / 16 % 2 * 2 + k / 8 % 2),
        odd(k % 2) {}
  // Number i of the eight in four pairs that a thread has of two steps u.
  MT_BOTH Place(int of_thread, int u, int i)
      : row(of_thread / 4), thread(of_thread), step(2 * u + i / 4), pair(i / 2), odd(i % 2) {}
};

// The word that a code is in, and the bit that it begins at.
struct CodeAt {
  int byte, bit;
};
MT_BOTH CodeAt word_of_four(const Place& p) {
  const int two = p.step / 2;
  return {two / 4 * 512 + p.thread * 16 + two % 4 * 4, 16 * p.odd};
}
MT_BOTH CodeAt word_of_eight(const Place& p) {
  return {p.step / 4 * 512 + p.thread * 16 + p.step % 4 * 4, 16 * (p.pair % 2) + 8 * p.odd};
}
MT_BOTH CodeAt bits_of_five(const Place& p) {
  const int two = p.step / 2;
  return {1024 + p.thread * 8 + two / 4 * 4, 4 * (two % 4) + p.pair + 16 * p.odd};
}
MT_BOTH CodeAt bits_of_six(const Place& p) {
  const int two = p.step / 2;
  return {1024 + p.thread * 16 + two / 2 * 4, 8 * (two % 2) + 2 * p.pair + 16 * p.odd};
}

// A number of a piece, as blocks' reader has it.
template <BlockType kType>
MT_BOTH float number_at(const std::uint8_t* piece, const Place& place) {
  constexpr TileForm kForm = tile_form(kType);
  const std::uint8_t* const scales = piece + kForm.scales_at();
  const int row = place.row, group = row * kForm.groups() + place.step / (kForm.group / 16);
  float q = 0;
  if constexpr (kForm.bits == 8) {
    const CodeAt at = word_of_eight(place);
    const std::uint32_t byte = load_at<std::uint32_t>(piece + at.byte) >> at.bit & 0xff;
    q = kForm.codes == TileCodes::e4m3 ? float_of_e4m3(byte)
                                       : static_cast<float>(static_cast<int>(byte) - 128);
  } else {
    const CodeAt at = word_of_four(place);
    const auto word = load_at<std::uint32_t>(piece + at.byte) >> at.bit;
    if constexpr (kForm.codes == TileCodes::e2m1) {
      const E2m1Place bits = e2m1_place(place.pair);
      q = float_of_half((word >> bits.magnitude & 7) << 9) * 0x1p14f;
      if (word >> bits.sign & 1) q = -q;
    } else {
      std::uint32_t code = word >> 4 * place.pair & 15;
      if constexpr (kForm.bits == 5) {
        const CodeAt high = bits_of_five(place);
        code |= (load_at<std::uint32_t>(piece + high.byte) >> high.bit & 1) << 4;
      }
      if constexpr (kForm.bits == 6) {
        const CodeAt high = bits_of_six(place);
        code |= (load_at<std::uint32_t>(piece + high.byte) >> high.bit & 3) << 4;
      }
      int zero = kForm.middle;
      if constexpr (is_int4(kType))
        zero = static_cast<int>(load_at<std::uint32_t>(scales + 4 * group) >> 4 & 31);
      q = static_cast<float>(static_cast<int>(code) - zero);
    }
  }
  if constexpr (kForm.scales == TileScales::f32) {
    auto bits = load_at<std::uint32_t>(scales + 4 * group);
    if constexpr (is_int4(kType)) bits &= ~0x1ffU;
    return float_of_bits(bits) * q;
  }
  if constexpr (kForm.scales == TileScales::f16)
    return float_of_half(load_at<std::uint16_t>(scales + 2 * group)) * q;
  if constexpr (kForm.scales == TileScales::bf16)
    return float_of_bits(std::uint32_t{load_at<std::uint16_t>(scales + 2 * group)} << 16) * q;
  // A product and a sum, each rounded by itself, as on the CPU.
  const auto sum = [](float product, float added) {
#ifdef __CUDA_ARCH__
    return __fadd_rn(product, added);
#else
    return product + added;
#endif
  };
  const auto times = [](float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
  };
  if constexpr (kForm.scales == TileScales::f16_least)
    return sum(times(float_of_half(load_at<std::uint16_t>(scales + 2 * group)), q),
               float_of_half(load_at<std::uint16_t>(scales + 16 * kForm.groups() + 2 * group)));
  if constexpr (kForm.scales == TileScales::six) {
    const float d = float_of_half(load_at<std::uint16_t>(scales + 4 * row)),
                least = float_of_half(load_at<std::uint16_t>(scales + 4 * row + 2));
    const std::uint8_t* const of_groups = scales + 32;
    return sum(times(d, q * static_cast<float>(of_groups[group])),
               -times(least, static_cast<float>(of_groups[8 * kForm.groups() + group])));
  }
  if constexpr (kForm.scales == TileScales::q6)
    return float_of_half(load_at<std::uint16_t>(scales + 2 * row)) *
           (q * static_cast<float>(static_cast<int>(scales[16 + group]) - 128));
  if constexpr (kForm.scales == TileScales::e4m3)
    return times(float_of_bits(load_at<std::uint32_t>(scales + 8 * row + place.step / 8 * 4)),
                 float_of_e4m3(scales[64 + group])) *
           q;
  return 0;
}

// body.operator()<type>().
template <class Body>
void with_type(BlockType type, const Body& body) {
  using enum BlockType;
  switch (type) {
    case q4_0:
      return body.template operator()<q4_0>();
    case q4_1:
      return body.template operator()<q4_1>();
    case q5_0:
      return body.template operator()<q5_0>();
    case q5_1:
      return body.template operator()<q5_1>();
    case q8_0:
      return body.template operator()<q8_0>();
    case q4_k:
      return body.template operator()<q4_k>();
    case q5_k:
      return body.template operator()<q5_k>();
    case q6_k:
      return body.template operator()<q6_k>();
    case int4_32:
      return body.template operator()<int4_32>();
    case int4_64:
      return body.template operator()<int4_64>();
    case int4_128:
      return body.template operator()<int4_128>();
    case int8:
      return body.template operator()<int8>();
    case e4m3:
      return body.template operator()<e4m3>();
    case mxfp4:
      return body.template operator()<mxfp4>();
    case nvfp4:
      return body.template operator()<nvfp4>();
  }
}

}  // namespace mt::tiles
