// What kind of character a code point is: its category, of which there are as many as the patterns
// of tokenizers tell apart, and the coarser class that GPT-2's pattern asks for.  Unicode 16.0:
// over all code points that is what \p{L}, \p{N}, \p{M}, \p{Lu} and \s mean to Hugging Face
// tokenizers 0.23 and tiktoken 0.14.  The tables are made by scripts/make-unicode-tables.py.
#pragma once

#include <array>
#include <cstdint>

namespace mt {

enum class Category : std::uint8_t {
  other,          // Cc, Cn, Co, Cs, unassigned code points
  upper,          // Lu, Lt
  lower,          // Ll
  letter,         // Lm, Lo: letters without case
  mark,           // Mn
  spacing_mark,   // Mc, Me
  digit,          // Nd
  letter_number,  // Nl
  number,         // No
  connector,      // Pc
  punctuation,    // Pd, Pe, Pf, Pi, Po, Ps
  symbol,         // Sm, Sc, Sk, So
  letter_symbol,  // the symbols that are Alphabetic, such as circled letters
  space,          // the property White_Space, whatever the general category
  format,         // Cf
};
inline constexpr int kCategories = 15;

// Letter: general category L*; number: N*.
enum class CharClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

namespace unicode_tables {
inline constexpr char32_t kLimit = 0xE0200;  // all code points from here on are `other`
extern const std::uint8_t kBlock[];          // code point / 256 -> block
extern const std::uint64_t kWords[];         // 16 words a block, four bits a code point
}  // namespace unicode_tables

inline Category category(char32_t point) {
  using namespace unicode_tables;
  if (point >= kLimit) return Category::other;
  const std::uint64_t word = kWords[kBlock[point >> 8] * 16 + ((point >> 4) & 15)];
  return static_cast<Category>((word >> (4 * (point & 15))) & 15);
}

constexpr bool is_letter(Category c) {
  return c == Category::upper || c == Category::lower || c == Category::letter;
}
constexpr bool is_mark(Category c) { return c == Category::mark || c == Category::spacing_mark; }
constexpr bool is_number(Category c) {
  return c == Category::digit || c == Category::letter_number || c == Category::number;
}

inline constexpr std::array<CharClass, kCategories> kClassOf = [] {
  std::array<CharClass, kCategories> classes{};
  for (int i = 0; i < kCategories; ++i) {
    const auto c = static_cast<Category>(i);
    classes[i] = is_letter(c)           ? CharClass::letter
                 : is_number(c)         ? CharClass::number
                 : c == Category::space ? CharClass::space
                                        : CharClass::other;
  }
  return classes;
}();

inline CharClass char_class(char32_t point) {
  return kClassOf[static_cast<std::size_t>(category(point))];
}

// What \w means to Rust's regular expressions: Alphabetic, M, Nd, Pc and the two joiners.
inline bool is_word_char(char32_t point) {
  const Category c = category(point);
  return is_letter(c) || is_mark(c) || c == Category::digit || c == Category::letter_number ||
         c == Category::connector || c == Category::letter_symbol || point == 0x200C ||
         point == 0x200D;
}

// White space as Python's str.split() and str.strip() have it: also the four ASCII separators.
inline bool is_python_space(char32_t point) {
  return char_class(point) == CharClass::space || (point >= 0x1C && point <= 0x1F);
}

}  // namespace mt
