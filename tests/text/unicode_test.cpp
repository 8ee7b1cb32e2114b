#include "text/unicode/unicode.h"

#include <gtest/gtest.h>

#include <array>

#include "text/bpe/byte_map.h"

namespace mt {

TEST(Unicode, CountsOfVersion16) {  // assigned letters, numbers and white space of Unicode 16.0
  std::array<int, 4> counts{};
  for (char32_t point = 0; point < 0x110000; ++point) ++counts[static_cast<int>(char_class(point))];
  EXPECT_EQ(counts[static_cast<int>(CharClass::letter)], 141028);
  EXPECT_EQ(counts[static_cast<int>(CharClass::number)], 1911);
  EXPECT_EQ(counts[static_cast<int>(CharClass::space)], 25);
}

TEST(Unicode, Classes) {
  struct Case {
    char32_t point;
    CharClass expected;
  };
  const Case cases[] = {
      {'a', CharClass::letter},     {0xAA, CharClass::letter},    {0x6C34, CharClass::letter},
      {0x323AF, CharClass::letter}, {0x1C89, CharClass::letter},  {'0', CharClass::number},
      {0x663, CharClass::number},   {0x2167, CharClass::number},  {0x1D7CE, CharClass::number},
      {0xBD, CharClass::number},    {0x85, CharClass::space},     {0xA0, CharClass::space},
      {0x3000, CharClass::space},   {0x1C, CharClass::other},     {0x180E, CharClass::other},
      {0x200B, CharClass::other},   {0xFEFF, CharClass::other},   {0x301, CharClass::other},
      {0, CharClass::other},        {0xD800, CharClass::other},   {0xFFFD, CharClass::other},
      {0x323B0, CharClass::other},  {0x10FFFF, CharClass::other}, {0xFFFFFFFF, CharClass::other},
  };
  for (const Case& one : cases)
    EXPECT_EQ(char_class(one.point), one.expected) << "U+" << std::hex << std::uint32_t{one.point};
}

TEST(Unicode, Categories) {
  struct Case {
    char32_t point;
    Category expected;
  };
  const Case cases[] = {
      {'A', Category::upper},
      {0x1C5, Category::upper},
      {'a', Category::lower},
      {0xAA, Category::letter},
      {0x2B0, Category::letter},
      {0x6C34, Category::letter},
      {0x301, Category::mark},
      {0xE01EF, Category::mark},
      {0x903, Category::spacing_mark},
      {0x20DD, Category::spacing_mark},
      {'7', Category::digit},
      {0x2167, Category::letter_number},
      {0xBD, Category::number},
      {'_', Category::connector},
      {'-', Category::punctuation},
      {'+', Category::symbol},
      {0x24B6, Category::letter_symbol},
      {' ', Category::space},
      {0xAD, Category::format},
      {0, Category::other},
      {0xE0200, Category::other},
  };
  for (const Case& one : cases)
    EXPECT_EQ(category(one.point), one.expected) << "U+" << std::hex << std::uint32_t{one.point};
}

TEST(ByteMap, SpecifiedCharacters) {
  EXPECT_EQ(to_byte_chars(std::string("\0\t\n \x7F\x80\xA0\xAD!~\xA1\xFF", 12)),
            "\u0100\u0109\u010A\u0120\u0121\u0122\u0142\u0143!~\u00A1\u00FF");
}

TEST(ByteMap, EachByteReturns) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(from_byte_chars(to_byte_chars(bytes)), bytes);
  }
  EXPECT_EQ(from_byte_chars("a\u0144"), std::nullopt);
  EXPECT_EQ(from_byte_chars(" "), std::nullopt);
}

}  // namespace mt
