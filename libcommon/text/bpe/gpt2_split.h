// GPT-2's pre-tokenisation: text is cut into pieces that BPE then treats one by one.  Equal to the
// leftmost matches of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with the character classes of text/unicode/unicode.h; the pieces put together are the text.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mt {

// Finds pieces of `text` from byte `at`, the start of a piece: as many as `ends` has room for,
// about, one at least, or up to the end of the text.  Writes each piece's end as an offset in
// `text` (the next piece starts there) and returns how many; 0 only at the end of the text.  Bytes
// that are no UTF-8 count as U+FFFD.
std::size_t gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

// This is gpt2_split() in instructions that run anywhere, with which it is compared.
std::size_t portable_gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends);

}  // namespace mt
