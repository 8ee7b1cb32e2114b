// Characters of UTF-8 that is known to be well-formed, and the length of the next one in bytes that
// need not be.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/utf8.h"

namespace mt {

// By the first byte of a character.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// next_code_point() of well-formed text.
inline char32_t next_valid_code_point(std::string_view text, std::size_t& at) {
  const auto next = [&] { return static_cast<unsigned char>(text[at++]); };
  const char32_t first = next();
  if (first < 0x80) return first;
  const char32_t second = next() & 0x3F;
  if (first < 0xE0) return (first & 0x1F) << 6 | second;
  const char32_t third = second << 6 | (next() & 0x3F);
  if (first < 0xF0) return (first & 0x0F) << 12 | third;
  return (first & 0x07) << 18 | third << 6 | (next() & 0x3F);
}

// The length in bytes of the well-formed character at text[at]; 0 where there is none.
inline std::size_t valid_utf8_length(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0x80) return 1;
  std::size_t end = at;
  const char32_t point = next_code_point(text, end);
  if (point == kReplacement && text.substr(at, end - at) != "\xEF\xBF\xBD") return 0;
  return end - at;
}

}  // namespace mt
