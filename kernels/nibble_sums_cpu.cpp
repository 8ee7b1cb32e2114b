#include "kernels/nibble_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mt::cpu {
namespace {

constexpr std::int64_t kWord = 4;  // bytes of a code that lie together where words are summed

// Whether this processor looks up 64 bytes at once and sums four in each word: then a tile is
// [words of a code, kNibbleTile], and else [bytes of a code, kNibbleTile].
bool sums_words() {
#if defined(__x86_64__)
  static const bool can = isa() == Isa::avx512 && __builtin_cpu_supports("avx512vbmi") &&
                          __builtin_cpu_supports("avx512vnni");
  return can;
#else
  return false;
#endif
}

std::int64_t words_of(std::int64_t bytes) { return (bytes + kWord - 1) / kWord; }

// Where a code's word lies in a row of its tile: two registers of 16 words, whose sums become one
// of 32 halves, four of the first and four of the second by turns.
std::int64_t place_of(std::int64_t code) {
  return code / 4 % 2 * (kNibbleTile / 2) + code / 8 * 4 + code % 4;
}

}  // namespace

std::int64_t nibble_tile_size(std::int64_t bytes) {
  return kNibbleTile * (sums_words() ? words_of(bytes) * kWord : bytes);
}

std::vector<std::uint8_t> nibble_tiles(std::span<const std::uint8_t> codes, std::int64_t bytes) {
  const std::int64_t count = std::ssize(codes) / bytes, size = nibble_tile_size(bytes),
                     tiles = (count + kNibbleTile - 1) / kNibbleTile;
  std::vector<std::uint8_t> result(static_cast<std::size_t>(tiles * size));
  const bool words = sums_words();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* const code = codes.data() + i * bytes;
    std::uint8_t* to = result.data() + i / kNibbleTile * size;
    const std::int64_t at = i % kNibbleTile;
    if (!words) {
      for (std::int64_t b = 0; b < bytes; ++b) to[b * kNibbleTile + at] = code[b];
      continue;
    }
    to += place_of(at) * kWord;
    std::int64_t b = 0;
    for (; b + kWord <= bytes; b += kWord, to += kNibbleTile * kWord)
      std::memcpy(to, code + b, kWord);
    std::copy(code + b, code + bytes, to);
  }
  return result;
}

std::int64_t nibble_table_size(std::int64_t bytes) {
  return 2 * kNibbleEntries * (sums_words() ? words_of(bytes) * kWord : bytes);
}

void put_nibble_table(std::uint8_t* to, const std::uint8_t* table, std::int64_t bytes) {
  if (!sums_words()) {
    std::copy_n(table, 2 * kNibbleEntries * bytes, to);
    return;
  }
  // Of each word the lower parts of its bytes, then the upper ones.
  std::fill_n(to, nibble_table_size(bytes), std::uint8_t{0});
  for (std::int64_t part = 0; part < 2 * bytes; ++part)
    std::copy_n(table + part * kNibbleEntries, kNibbleEntries,
                to + (part / (2 * kWord) * 2 * kWord + part % 2 * kWord + part / 2 % kWord) *
                         kNibbleEntries);
}

namespace {

std::uint32_t plain_sums(std::uint16_t* sums, std::uint32_t* near, const NibbleSums& o) {
  std::uint32_t some = 0;
  run([&] {
    for (std::int64_t t = 0; t < o.table_count; ++t)
      for (std::int64_t tile = 0; tile < o.count; ++tile, sums += kNibbleTile, ++near) {
        const std::uint8_t* code = o.tiles + tile * o.bytes * kNibbleTile;
        const std::uint8_t* table = o.tables[t];
        std::uint16_t all[kNibbleTile] = {};
        for (std::int64_t b = 0; b < o.bytes; ++b, table += 2 * kNibbleEntries)
          for (std::int64_t i = 0; i < kNibbleTile; ++i, ++code)
            all[i] = static_cast<std::uint16_t>(all[i] + table[*code & 15] +
                                                table[kNibbleEntries + (*code >> 4)]);
        std::copy_n(all, kNibbleTile, sums);
        *near = 0;
        for (std::int64_t i = 0; i < kNibbleTile; ++i)
          *near |= std::uint32_t{all[i] <= o.limits[t]} << i;
        some |= std::uint32_t{*near != 0} << t;
      }
  });
  return some;
}

#if defined(__x86_64__)

// Bits of the tables from `first` on that have something.
template <int kTables>
std::uint32_t bits_of(const std::uint32_t (&any)[kTables], std::int64_t first) {
  std::uint32_t bits = 0;
  for (int t = 0; t < kTables; ++t) bits |= std::uint32_t{any[t] != 0} << (first + t);
  return bits;
}

// A shuffle looks up 32 bytes; the sums of even codes have those of odd ones, by 256, in them,
// which are taken off at last.
template <int kTables>
[[gnu::target("avx2")]] std::uint32_t shuffled_sums(std::uint16_t* sums, std::uint32_t* near,
                                                    const NibbleSums& o, std::int64_t first) {
  std::uint32_t any[kTables] = {};
  const __m256i low = _mm256_set1_epi8(15);
  for (std::int64_t tile = 0; tile < o.count; ++tile) {
    __m256i all[kTables], odd[kTables];
    for (int t = 0; t < kTables; ++t) all[t] = odd[t] = _mm256_setzero_si256();
    const std::uint8_t* code = o.tiles + tile * o.bytes * kNibbleTile;
    for (std::int64_t b = 0; b < o.bytes; ++b, code += kNibbleTile) {
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(code)),
                    parts[2] = {_mm256_and_si256(both, low),
                                _mm256_and_si256(_mm256_srli_epi16(both, 4), low)};
      for (int t = 0; t < kTables; ++t)
        for (int half = 0; half < 2; ++half) {
          const auto* const entries = reinterpret_cast<const __m128i*>(
              o.tables[first + t] + (2 * b + half) * kNibbleEntries);
          const __m256i found = _mm256_shuffle_epi8(
              _mm256_broadcastsi128_si256(_mm_loadu_si128(entries)), parts[half]);
          all[t] = _mm256_add_epi16(all[t], found);
          odd[t] = _mm256_add_epi16(odd[t], _mm256_srli_epi16(found, 8));
        }
    }
    for (int t = 0; t < kTables; ++t) {
      const std::int64_t place = (first + t) * o.count + tile;
      const __m256i even = _mm256_sub_epi16(all[t], _mm256_slli_epi16(odd[t], 8)),
                    a = _mm256_unpacklo_epi16(even, odd[t]),
                    b = _mm256_unpackhi_epi16(even, odd[t]),
                    begin = _mm256_permute2x128_si256(a, b, 0x20),
                    end = _mm256_permute2x128_si256(a, b, 0x31),
                    limit = _mm256_set1_epi16(static_cast<short>(o.limits[first + t])),
                    is_near = _mm256_packs_epi16(
                        _mm256_cmpeq_epi16(_mm256_min_epu16(begin, limit), begin),
                        _mm256_cmpeq_epi16(_mm256_min_epu16(end, limit), end));
      auto* const to = reinterpret_cast<__m256i*>(sums + place * kNibbleTile);
      _mm256_storeu_si256(to, begin);
      _mm256_storeu_si256(to + 1, end);
      near[place] =
          static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(is_near, 0xD8)));
      any[t] |= near[place];
    }
  }
  return bits_of(any, first);
}

// An instruction looks up four parts of 16 codes, in 64 bytes, and another adds the four.
template <int kTables>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]] std::uint32_t word_sums(
    std::uint16_t* sums, std::uint32_t* near, const NibbleSums& o, std::int64_t first) {
  std::uint32_t any[kTables] = {};
  const __m512i low = _mm512_set1_epi32(0x0F0F0F0F), ones = _mm512_set1_epi8(1),
                which = _mm512_set1_epi32(0x30201000);  // of four tables, for each byte
  constexpr int kAndOr = 0xEA;                          // a & b | c
  const std::int64_t words = words_of(o.bytes);
  for (std::int64_t tile = 0; tile < o.count; ++tile) {
    __m512i all[kTables][2];
    for (int t = 0; t < kTables; ++t) all[t][0] = all[t][1] = _mm512_setzero_si512();
    const std::uint8_t* code = o.tiles + tile * words * kWord * kNibbleTile;
    for (std::int64_t word = 0; word < words; ++word)
      for (int half = 0; half < 2; ++half, code += 64) {
        const __m512i both = _mm512_loadu_si512(code),
                      lower = _mm512_ternarylogic_epi32(both, low, which, kAndOr),
                      upper =
                          _mm512_ternarylogic_epi32(_mm512_srli_epi32(both, 4), low, which, kAndOr);
        for (int t = 0; t < kTables; ++t) {
          const std::uint8_t* const entries =
              o.tables[first + t] + word * 2 * kWord * kNibbleEntries;
          all[t][half] = _mm512_dpbusd_epi32(
              all[t][half], _mm512_permutexvar_epi8(lower, _mm512_loadu_si512(entries)), ones);
          all[t][half] = _mm512_dpbusd_epi32(
              all[t][half], _mm512_permutexvar_epi8(upper, _mm512_loadu_si512(entries + 64)), ones);
        }
      }
    for (int t = 0; t < kTables; ++t) {
      const std::int64_t place = (first + t) * o.count + tile;
      const __m512i of_codes = _mm512_packus_epi32(all[t][0], all[t][1]);
      _mm512_storeu_si512(sums + place * kNibbleTile, of_codes);
      near[place] = _mm512_cmple_epu16_mask(
          of_codes, _mm512_set1_epi16(static_cast<short>(o.limits[first + t])));
      any[t] |= near[place];
    }
  }
  return bits_of(any, first);
}

#endif

}  // namespace

std::uint32_t nibble_sums(std::uint16_t* sums, std::uint32_t* near, const NibbleSums& o) {
#if defined(__x86_64__)
  const auto by_fours = [&]<class Four, class One>(const Four& four, const One& one) {
    if (o.table_count == kMostNibbleTables) return four(sums, near, o, std::int64_t{0});
    std::uint32_t some = 0;
    for (std::int64_t t = 0; t < o.table_count; ++t) some |= one(sums, near, o, t);
    return some;
  };
  if (sums_words()) return by_fours(word_sums<kMostNibbleTables>, word_sums<1>);
  if (isa() != Isa::base) return by_fours(shuffled_sums<kMostNibbleTables>, shuffled_sums<1>);
#endif
  return plain_sums(sums, near, o);
}

}  // namespace mt::cpu
