// CharMasks: what the ASCII characters among 64 bytes are, a bit for each byte, so that a splitter
// finds the ends of many pieces with few operations.
#pragma once

#include <emmintrin.h>

#include <cstdint>

namespace mt {

struct CharMasks {
  std::uint64_t letter = 0, number = 0, space = 0;  // the classes of text/char_runs.h
  std::uint64_t blank = 0, apostrophe = 0;          // ' ' and '\''
  std::uint64_t multibyte = 0;                      // part of a longer character, and none of these

  explicit CharMasks(const char* bytes) {
    for (int part = 0; part < 64; part += 16) {
      const __m128i chars = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + part));
      letter |= bits(in_range(_mm_or_si128(chars, _mm_set1_epi8(0x20)), 'a', 'z')) << part;
      number |= bits(in_range(chars, '0', '9')) << part;
      const __m128i blanks = _mm_cmpeq_epi8(chars, _mm_set1_epi8(' '));
      blank |= bits(blanks) << part;
      space |= bits(_mm_or_si128(blanks, in_range(chars, '\t', '\r'))) << part;
      apostrophe |= bits(_mm_cmpeq_epi8(chars, _mm_set1_epi8('\''))) << part;
      multibyte |= bits(chars) << part;
    }
  }

 private:
  static std::uint64_t bits(__m128i bytes) {  // the highest of each
    return static_cast<std::uint32_t>(_mm_movemask_epi8(bytes));
  }
  static __m128i in_range(__m128i chars, char low, char high) {  // as bytes without a sign
    const __m128i above = _mm_sub_epi8(chars, _mm_set1_epi8(low));
    const __m128i most = _mm_set1_epi8(static_cast<char>(high - low));
    return _mm_cmpeq_epi8(_mm_min_epu8(above, most), above);
  }
};

}  // namespace mt
