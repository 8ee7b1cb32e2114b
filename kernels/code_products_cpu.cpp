#include "kernels/code_products.h"

#include <cstring>

#include "kernels/isa.h"
#include "kernels/unrolled.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mt::cpu {
namespace {

void products_plain(const CodeProducts& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    std::int32_t sums[kCodeTile];
    for (std::int32_t& sum : sums) sum = p.starts[i];
    for (std::int64_t d = 0; d < 4 * p.depth; ++d) {
      const std::int32_t x = p.x[i * 4 * p.depth + d];
      const std::uint8_t* const code = p.tile + d / 4 * 4 * kCodeTile + d % 4;
      for (std::int64_t j = 0; j < kCodeTile; ++j) sums[j] += x * code[4 * j];
    }
    std::memcpy(p.out + i * p.stride, sums, sizeof sums);
  }
}

#if defined(__x86_64__)
std::int32_t four_codes(const std::int8_t* at) {
  std::int32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Six rows and all vectors of the tile at once: 24 registers of sums.
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni")]] void products_vnni(
    const CodeProducts& p) {
  constexpr int kRows = kCodeRows, kParts = kCodeTile / 16;
  for (std::int64_t row = 0; row < p.rows; row += kRows) {
    __m512i sums[kRows][kParts];
    MT_UNROLLED for (int r = 0; r < kRows; ++r) {
      MT_UNROLLED for (int v = 0; v < kParts; ++v) sums[r][v] =
          _mm512_set1_epi32(p.starts[row + r]);
    }
    const std::int8_t* x = p.x + row * 4 * p.depth;
    const std::uint8_t* tile = p.tile;
    for (std::int64_t d = 0; d < p.depth; ++d, x += 4, tile += 4 * kCodeTile) {
      __m512i codes[kParts];
      MT_UNROLLED for (int v = 0; v < kParts; ++v) codes[v] = _mm512_loadu_si512(tile + 64 * v);
      MT_UNROLLED for (int r = 0; r < kRows; ++r) {
        const __m512i four = _mm512_set1_epi32(four_codes(x + r * 4 * p.depth));
        MT_UNROLLED for (int v = 0; v < kParts; ++v) sums[r][v] =
            _mm512_dpbusd_epi32(sums[r][v], codes[v], four);
      }
    }
    MT_UNROLLED for (int r = 0; r < kRows; ++r) {
      MT_UNROLLED for (int v = 0; v < kParts; ++v)
          _mm512_storeu_si512(p.out + (row + r) * p.stride + 16 * v, sums[r][v]);
    }
  }
}

// Three rows and sixteen vectors at once, their even and odd columns in words of 16 bits.
[[gnu::target("avx2")]] void products_avx2(const CodeProducts& p) {
  constexpr int kRows = 3, kParts = 2;
  static_assert(kCodeRows % kRows == 0);
  const __m256i low = _mm256_set1_epi16(255);
  for (std::int64_t row = 0; row < p.rows; row += kRows)
    for (std::int64_t j = 0; j < kCodeTile; j += 8 * kParts) {
      __m256i sums[kRows][kParts];
      MT_UNROLLED for (int r = 0; r < kRows; ++r) {
        MT_UNROLLED for (int v = 0; v < kParts; ++v) sums[r][v] =
            _mm256_set1_epi32(p.starts[row + r]);
      }
      const std::int8_t* x = p.x + row * 4 * p.depth;
      const std::uint8_t* tile = p.tile + 4 * j;
      for (std::int64_t d = 0; d < p.depth; ++d, x += 4, tile += 4 * kCodeTile) {
        __m256i even[kParts], odd[kParts];
        MT_UNROLLED for (int v = 0; v < kParts; ++v) {
          const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile + 32 * v));
          even[v] = _mm256_and_si256(codes, low);
          odd[v] = _mm256_srli_epi16(codes, 8);
        }
        MT_UNROLLED for (int r = 0; r < kRows; ++r) {
          const __m256i four = _mm256_set1_epi32(four_codes(x + r * 4 * p.depth)),
                        x_even = _mm256_srai_epi16(_mm256_slli_epi16(four, 8), 8),
                        x_odd = _mm256_srai_epi16(four, 8);
          MT_UNROLLED for (int v = 0; v < kParts; ++v) sums[r][v] =
              _mm256_add_epi32(sums[r][v], _mm256_add_epi32(_mm256_madd_epi16(even[v], x_even),
                                                            _mm256_madd_epi16(odd[v], x_odd)));
        }
      }
      MT_UNROLLED for (int r = 0; r < kRows; ++r) {
        MT_UNROLLED for (int v = 0; v < kParts; ++v) _mm256_storeu_si256(
            reinterpret_cast<__m256i*>(p.out + (row + r) * p.stride + j + 8 * v), sums[r][v]);
      }
    }
}
#endif

}  // namespace

void code_products(const CodeProducts& problem) {
#if defined(__x86_64__)
  if (isa() == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return products_vnni(problem);
  if (isa() != Isa::base) return products_avx2(problem);
#endif
  products_plain(problem);
}

}  // namespace mt::cpu
