// What kind of character a code point is: letter (general category L*), number (N*), white space
// (the property White_Space) or anything else, unassigned code points and surrogates included.
// Unicode 16.0: over all code points that is what \p{L}, \p{N} and \s mean to Hugging Face
// tokenizers 0.23. The tables are made by scripts/make-unicode-tables.py.
#pragma once

#include <cstdint>

namespace mt {

enum class CharClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

namespace unicode_tables {
inline constexpr char32_t kLimit = 0x32400;  // all code points from here on are `other`
extern const std::uint8_t kBlock[];          // code point / 256 -> block
extern const std::uint64_t kWords[];         // 8 words a block, two bits a code point
}  // namespace unicode_tables

inline CharClass char_class(char32_t point) {
  using namespace unicode_tables;
  if (point >= kLimit) return CharClass::other;
  const std::uint64_t word = kWords[kBlock[point >> 8] * 8 + ((point >> 5) & 7)];
  return static_cast<CharClass>((word >> (2 * (point & 31))) & 3);
}

// White space as Python's str.split() and str.strip() have it: also the four ASCII separators.
inline bool is_python_space(char32_t point) {
  return char_class(point) == CharClass::space || (point >= 0x1C && point <= 0x1F);
}

}  // namespace mt
