#include "kernels/code_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mt::cpu {

bool sums_bytes() {
#if defined(__x86_64__)
  return isa() == Isa::avx512 && __builtin_cpu_supports("avx512vbmi");
#else
  return false;
#endif
}

std::vector<std::uint8_t> by_parts(std::span<const std::uint8_t> codes, std::int64_t parts) {
  const std::int64_t count = std::ssize(codes) / parts,
                     tiles = (count + kCodesTogether - 1) / kCodesTogether;
  std::vector<std::uint8_t> result(static_cast<std::size_t>(tiles * parts * kCodesTogether));
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t part = 0; part < parts; ++part)
      result[static_cast<std::size_t>((i / kCodesTogether * parts + part) * kCodesTogether +
                                      i % kCodesTogether)] =
          codes[static_cast<std::size_t>(i * parts + part)];
  return result;
}

namespace {

constexpr std::int64_t kEntries = 256;  // of a part

struct Extent {
  float least, most;  // not finite where a number is not
};

[[gnu::always_inline]] inline Extent extent_of(const float* row) {
  float least[kLanes], most[kLanes], zeros[kLanes] = {};
  std::copy_n(row, kLanes, least);
  std::copy_n(row, kLanes, most);
  for (std::int64_t i = 0; i < kEntries; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) {
      const float x = row[i + lane];
      least[lane] = x < least[lane] ? x : least[lane];
      most[lane] = x > most[lane] ? x : most[lane];
      zeros[lane] += x - x;
    }
  const float nothing = std::accumulate(zeros, zeros + kLanes, 0.0F);
  return {*std::min_element(least, least + kLanes) + nothing,
          *std::max_element(most, most + kLanes) + nothing};
}

[[gnu::always_inline]] inline void fill_row(std::uint8_t* bytes, const float* row, float low,
                                            float inverse) {
  std::int32_t whole[kEntries];
  for (std::int64_t i = 0; i < kEntries; ++i) {
    const auto number = static_cast<std::int32_t>((row[i] - low) * inverse);
    whole[i] = number < 255 ? number : 255;
  }
  for (std::int64_t i = 0; i < kEntries; ++i) bytes[i] = static_cast<std::uint8_t>(whole[i]);
}

}  // namespace

void ByteTables::fill(std::span<const float> table) {
  const std::int64_t parts = std::ssize(table) / kEntries;
  std::vector<Extent> extents(static_cast<std::size_t>(parts));
  run([&] {
    for (std::int64_t p = 0; p < parts; ++p)
      extents[static_cast<std::size_t>(p)] = extent_of(table.data() + p * kEntries);
  });
  low = largest = 0;
  float widest = 0;
  for (const auto& [least, most] : extents) {
    widest = std::max(widest, most - least);
    low += least;
    largest += std::max(std::abs(least), std::abs(most));
  }
  step = widest / 255;
  const float inverse = 255 / widest;
  bytes.clear();
  if (!(inverse < INFINITY) || !(widest < INFINITY) || !(largest < INFINITY) ||
      parts > kMostCodeParts)
    return;
  bytes.resize(table.size());
  run([&] {
    for (std::int64_t p = 0; p < parts; ++p)
      fill_row(bytes.data() + p * kEntries, table.data() + p * kEntries,
               extents[static_cast<std::size_t>(p)].least, inverse);
  });
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512vbmi")]] static void sums_in_registers(
    std::uint16_t* sums, const std::uint8_t* tile, const ByteTables& tables) {
  __m512i even = _mm512_setzero_si512(), odd = even;  // of codes 0, 2, ... and 1, 3, ...
  const __m512i low = _mm512_set1_epi16(255);
  const std::uint8_t* const end = tables.bytes.data() + tables.bytes.size();
  for (const std::uint8_t* table = tables.bytes.data(); table != end; table += 256, tile += 64) {
    const __m512i codes = _mm512_loadu_si512(tile),
                  first = _mm512_permutex2var_epi8(_mm512_loadu_si512(table), codes,
                                                   _mm512_loadu_si512(table + 64)),
                  second = _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), codes,
                                                    _mm512_loadu_si512(table + 192)),
                  found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), first, second);
    even = _mm512_add_epi16(even, _mm512_and_si512(found, low));
    odd = _mm512_add_epi16(odd, _mm512_srli_epi16(found, 8));
  }
  std::uint16_t pairs[2][kCodesTogether / 2];
  _mm512_storeu_si512(pairs[0], even);
  _mm512_storeu_si512(pairs[1], odd);
  for (std::int64_t i = 0; i < kCodesTogether / 2; ++i)
    for (std::int64_t k = 0; k < 2; ++k) sums[2 * i + k] = pairs[k][i];
}
#endif

void byte_sums(std::uint16_t* sums, const std::uint8_t* tile, const ByteTables& tables) {
#if defined(__x86_64__)
  if (sums_bytes()) return sums_in_registers(sums, tile, tables);
#endif
  std::fill_n(sums, kCodesTogether, std::uint16_t{0});
  const std::uint8_t* const end = tables.bytes.data() + tables.bytes.size();
  for (const std::uint8_t* table = tables.bytes.data(); table != end; table += kEntries)
    for (std::int64_t i = 0; i < kCodesTogether; ++i, ++tile)
      sums[i] = static_cast<std::uint16_t>(sums[i] + table[*tile]);
}

}  // namespace mt::cpu
