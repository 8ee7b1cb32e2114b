#include "data/corpus/json_copy.h"

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstdint>

namespace mt {
namespace {

// What `\x` stands for; 0: nothing.
alignas(64) constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> escapes{};
  for (const char c : {'"', '\\', '/'}) escapes[static_cast<unsigned char>(c)] = c;
  escapes['b'] = '\b';
  escapes['f'] = '\f';
  escapes['n'] = '\n';
  escapes['r'] = '\r';
  escapes['t'] = '\t';
  return escapes;
}();

// Takes an escape of two bytes; false where there is something else.
inline bool take_escape(JsonCopy& copy) {
  if (*copy.at != '\\') return false;
  const char meant = kEscapes[static_cast<unsigned char>(copy.at[1])];
  if (meant == '\0') return false;
  *copy.room++ = meant;
  copy.at += 2;
  return true;
}

JsonCopy copy_sse2(const char* at, const char* end, char* room) {
  constexpr int kStep = 32;
  JsonCopy copy = {at, room, true};
  __m128i seen = _mm_setzero_si128();
  while (copy.at < end) {
    std::uint32_t special = 0;  // quotes, backslashes and control characters
    for (int part = 0; part < kStep; part += 16) {
      const __m128i chars = _mm_loadu_si128(reinterpret_cast<const __m128i*>(copy.at + part));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(copy.room + part), chars);
      seen = _mm_or_si128(seen, chars);
      const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(chars, _mm_set1_epi8(0x1F)), chars);
      const __m128i quote = _mm_cmpeq_epi8(chars, _mm_set1_epi8('"'));
      const __m128i backslash = _mm_cmpeq_epi8(chars, _mm_set1_epi8('\\'));
      const __m128i any = _mm_or_si128(control, _mm_or_si128(quote, backslash));
      special |= static_cast<std::uint32_t>(_mm_movemask_epi8(any)) << part;
    }
    const int plain = std::countr_zero(special);  // kStep where there is none
    copy.at += plain;
    copy.room += plain;
    if (special != 0 && (copy.at >= end || !take_escape(copy))) break;
  }
  copy.ascii = _mm_movemask_epi8(seen) == 0;
  return copy;
}

#define MT_TARGET_AVX512 "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt"

// Escapes are undone 64 bytes at a time, without a branch for any: each character behind a
// backslash is looked up, and the backslashes are pressed out.
[[gnu::target(MT_TARGET_AVX512)]] JsonCopy copy_avx512(const char* at, const char* end,
                                                       char* room) {
  JsonCopy copy = {at, room, true};
  const __m512i low = _mm512_load_si512(kEscapes.data());
  const __m512i high = _mm512_load_si512(kEscapes.data() + 64);
  std::uint64_t multibyte = 0;
  while (copy.at < end) {
    const __m512i chars = _mm512_loadu_si512(copy.at);
    const std::uint64_t backslash = _mm512_cmpeq_epi8_mask(chars, _mm512_set1_epi8('\\'));
    const std::uint64_t escaped = backslash << 1;
    const std::uint64_t beyond = _mm512_movepi8_mask(chars);  // ASCII
    const __m512i meant = _mm512_permutex2var_epi8(low, chars, high);
    const std::uint64_t known = _mm512_test_epi8_mask(meant, meant) & ~beyond;
    const std::uint64_t quote = _mm512_cmpeq_epi8_mask(chars, _mm512_set1_epi8('"'));
    const std::uint64_t control = _mm512_cmplt_epu8_mask(chars, _mm512_set1_epi8(0x20));
    // The copy also ends before a backslash with another one behind it, and before one in the last
    // byte: what these escape is seen from there.
    const std::uint64_t stops = (quote & ~escaped) | control | (backslash & backslash >> 1) |
                                ((escaped & ~known) >> 1) | (backslash & std::uint64_t{1} << 63);
    const __m512i undone = _mm512_mask_mov_epi8(chars, escaped, meant);
    if (stops == 0) [[likely]] {  // where the next load is from waits for nothing
      _mm512_storeu_si512(copy.room, _mm512_maskz_compress_epi8(~backslash, undone));
      multibyte |= beyond;
      copy.at += 64;
      copy.room += 64 - std::popcount(backslash);
      continue;
    }
    const int plain = std::countr_zero(stops);
    const std::uint64_t taken = (std::uint64_t{1} << plain) - 1, kept = taken & ~backslash;
    _mm512_storeu_si512(copy.room, _mm512_maskz_compress_epi8(kept, undone));
    multibyte |= beyond & taken;
    copy.at += plain;
    copy.room += std::popcount(kept);
    if (copy.at >= end || !take_escape(copy)) break;
  }
  copy.ascii = multibyte == 0;
  return copy;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

}  // namespace

JsonCopier json_copier() { return has_avx512() ? copy_avx512 : copy_sse2; }
JsonCopier portable_json_copier() { return copy_sse2; }

}  // namespace mt
