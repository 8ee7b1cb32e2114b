#include "text/bpe/gpt2_split.h"

#include <array>
#include <bit>
#include <cstdint>
#include <numeric>

#include "text/bpe/char_masks.h"
#include "text/bpe/char_runs.h"

namespace mt {

// The length of the contraction at text[at], an apostrophe; 0 when there is none.
static std::size_t contraction_length(std::string_view text, std::size_t at) {
  const std::string_view tail = text.substr(at + 1, 2);
  if (tail.empty()) return 0;
  if (tail[0] == 's' || tail[0] == 't' || tail[0] == 'm' || tail[0] == 'd') return 2;
  return tail == "re" || tail == "ve" || tail == "ll" ? 3 : 0;
}

static std::size_t piece_end(std::string_view text, std::size_t at) {
  std::size_t next = at;
  CharClass first = next_class(text, next);
  if (first == CharClass::other && text[at] == '\'')
    if (const std::size_t length = contraction_length(text, at)) return at + length;
  if (first == CharClass::space) {
    if (text[at] != ' ' || next == text.size()) return space_end(text, at);
    first = next_class(text, next);  // the optional space of a word
    if (first == CharClass::space) return space_end(text, at);
  }
  return run_end(text, next, first);
}

// Where pieces begin in the ASCII characters of the 64 bytes from text[at] on, a bit for each byte;
// not the first one, and none in the last of these characters: what follows that is not known.
[[gnu::always_inline]] static inline std::uint64_t starts_in(const CharMasks& is,
                                                             std::string_view text,
                                                             std::size_t at) {
  const int known = std::countr_zero(is.multibyte);
  if (known < 3) return 0;
  const std::uint64_t other = ~(is.letter | is.number | is.space);
  const std::uint64_t changes = ~is.space & ((is.letter ^ is.letter << 1) |
                                             (is.number ^ is.number << 1) | (other ^ other << 1));
  // At a change, or at the one blank before it, if there is one; at the first and at the last
  // character of white space.
  std::uint64_t starts = changes & ~(is.blank << 1);
  starts |= is.space & ~(is.space << 1 & is.space >> 1);
  starts &= (std::uint64_t{1} << (known - 1)) - 1;
  for (std::uint64_t rest = (starts | 1) & is.apostrophe; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const std::size_t length = contraction_length(text, at + i);
    if (length == 0) continue;
    starts &= ~(std::uint64_t{2} << i);
    if (i + static_cast<int>(length) < known - 1) starts |= std::uint64_t{1} << (i + length);
  }
  return starts & ~std::uint64_t{1};
}

// Writes the ends of the pieces before these starts, and says how many.
static std::size_t write_ends(std::uint64_t starts, std::size_t at, std::size_t* ends) {
  std::size_t count = 0;
  for (; starts != 0; starts &= starts - 1) ends[count++] = at + std::countr_zero(starts);
  return count;
}

// write_ends() eight at a time: `ends` has room for 64.
[[gnu::target(MT_TARGET_WIDE_MASKS)]] static std::size_t write_ends_wide(std::uint64_t starts,
                                                                         std::size_t at,
                                                                         std::size_t* ends) {
  alignas(64) static constexpr auto kNumbers = [] {
    std::array<std::uint8_t, CharMasks::kBytes> numbers{};
    std::iota(numbers.begin(), numbers.end(), std::uint8_t{0});
    return numbers;
  }();
  alignas(64) std::array<std::uint8_t, CharMasks::kBytes> places;
  _mm512_store_si512(places.data(),
                     _mm512_maskz_compress_epi8(starts, _mm512_load_si512(kNumbers.data())));
  const __m512i begin = _mm512_set1_epi64(static_cast<std::int64_t>(at));
  const auto count = static_cast<std::size_t>(std::popcount(starts));
  for (std::size_t i = 0; i < count; i += 8) {
    const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(places.data() + i));
    const __m512i wide = _mm512_maskz_cvtepu8_epi64(0xFF, some);
    _mm512_storeu_si512(ends + i, _mm512_add_epi64(begin, wide));
  }
  return count;
}

template <auto masks_of, auto write>
[[gnu::always_inline]] static inline std::size_t split(std::string_view text, std::size_t at,
                                                       std::span<std::size_t> ends) {
  std::size_t count = 0;
  while (at < text.size() && (count == 0 || ends.size() - count >= CharMasks::kBytes)) {
    std::uint64_t starts = 0;
    if (ends.size() >= CharMasks::kBytes) starts = starts_in(masks_of(text.substr(at)), text, at);
    if (starts == 0) {
      ends[count++] = at = piece_end(text, at);
    } else {  // the next window waits for the last start, and not for what is written
      count += write(starts, at, ends.data() + count);
      at += 63 - std::countl_zero(starts);
    }
  }
  return count;
}

[[gnu::target(MT_TARGET_WIDE_MASKS)]] static std::size_t wide_gpt2_split(
    std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<CharMasks::wide, write_ends_wide>(text, at, ends);
}

static CharMasks masks_of(std::string_view text) { return CharMasks(text); }

std::size_t portable_gpt2_split(std::string_view text, std::size_t at,
                                std::span<std::size_t> ends) {
  return split<masks_of, write_ends>(text, at, ends);
}

std::size_t gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return wide_masks_run_here() ? wide_gpt2_split(text, at, ends)
                               : portable_gpt2_split(text, at, ends);
}

}  // namespace mt
