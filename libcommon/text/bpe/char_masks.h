// CharMasks: what the ASCII characters among a text's first 64 bytes are, a bit for each byte, so
// that many pieces are found with few operations.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace mt {

#define MT_TARGET_WIDE_MASKS "avx512f,avx512bw,avx512vbmi2,bmi,bmi2,popcnt"

struct CharMasks {
  static constexpr std::size_t kBytes = 64;

  std::uint64_t letter = 0, number = 0, space = 0;  // the classes of text/bpe/char_runs.h
  std::uint64_t blank = 0, apostrophe = 0;          // ' ' and '\''
  std::uint64_t printable = 0;                      // from ' ' to '~'
  std::uint64_t multibyte = 0;  // part of a longer character, or behind the text; none of these

  explicit CharMasks(std::string_view text) {
    char padded[kBytes];
    const char* bytes = text.data();
    if (text.size() < kBytes) {
      std::memset(padded, 0x80, kBytes);
      std::memcpy(padded, bytes, text.size());
      bytes = padded;
    }
    classify(bytes);
  }

  // The masks in wide instructions, where wide_masks_run_here().
  [[gnu::target(MT_TARGET_WIDE_MASKS)]] static CharMasks wide(std::string_view text) {
    const auto in_range =
        [](__m512i chars, char low, char high) __attribute__((target(MT_TARGET_WIDE_MASKS))) {
      return _mm512_cmple_epu8_mask(_mm512_sub_epi8(chars, _mm512_set1_epi8(low)),
                                    _mm512_set1_epi8(static_cast<char>(high - low)));
    };
    const std::uint64_t there = _bzhi_u64(~std::uint64_t{0}, std::min(text.size(), kBytes));
    const __m512i chars =
        _mm512_mask_loadu_epi8(_mm512_set1_epi8(static_cast<char>(0x80)), there, text.data());
    CharMasks is;
    is.letter = in_range(_mm512_or_si512(chars, _mm512_set1_epi8(0x20)), 'a', 'z');
    is.number = in_range(chars, '0', '9');
    is.blank = _mm512_cmpeq_epi8_mask(chars, _mm512_set1_epi8(' '));
    is.space = is.blank | in_range(chars, '\t', '\r');
    is.apostrophe = _mm512_cmpeq_epi8_mask(chars, _mm512_set1_epi8('\''));
    is.printable = in_range(chars, ' ', '~');
    is.multibyte = _mm512_movepi8_mask(chars);
    return is;
  }

 private:
  CharMasks() = default;

  void classify(const char* bytes) {
    for (int part = 0; part < 64; part += 16) {
      const __m128i chars = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + part));
      letter |= bits(in_range(_mm_or_si128(chars, _mm_set1_epi8(0x20)), 'a', 'z')) << part;
      number |= bits(in_range(chars, '0', '9')) << part;
      const __m128i blanks = _mm_cmpeq_epi8(chars, _mm_set1_epi8(' '));
      blank |= bits(blanks) << part;
      space |= bits(_mm_or_si128(blanks, in_range(chars, '\t', '\r'))) << part;
      apostrophe |= bits(_mm_cmpeq_epi8(chars, _mm_set1_epi8('\''))) << part;
      printable |= bits(in_range(chars, ' ', '~')) << part;
      multibyte |= bits(chars) << part;
    }
  }

  static std::uint64_t bits(__m128i bytes) {  // the highest of each
    return static_cast<std::uint32_t>(_mm_movemask_epi8(bytes));
  }
  static __m128i in_range(__m128i chars, char low, char high) {  // as bytes without a sign
    const __m128i above = _mm_sub_epi8(chars, _mm_set1_epi8(low));
    const __m128i most = _mm_set1_epi8(static_cast<char>(high - low));
    return _mm_cmpeq_epi8(_mm_min_epu8(above, most), above);
  }
};

inline bool wide_masks_run_here() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

}  // namespace mt
