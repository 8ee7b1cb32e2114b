// Runs of characters of one class, from which the hand-written splitters (text/bpe/gpt2_split.h,
// text/bpe/word_split.h) are made.  All take a text and the byte `at` where a character starts.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace mt {

// The class of each ASCII byte; bytes from 0x80 on have to be decoded first.
inline constexpr auto kMultibyte = static_cast<CharClass>(4);
inline constexpr std::array<CharClass, 256> kByteClass = [] {
  std::array<CharClass, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = c >= 0x80              ? kMultibyte
                 : letter               ? CharClass::letter
                 : c >= '0' && c <= '9' ? CharClass::number
                 : space                ? CharClass::space
                                        : CharClass::other;
  }
  return classes;
}();

inline CharClass byte_class(std::string_view text, std::size_t at) {
  return kByteClass[static_cast<unsigned char>(text[at])];
}

// The class of the character at text[at]; `at` moves past it.
inline CharClass next_class(std::string_view text, std::size_t& at) {
  const CharClass ascii = byte_class(text, at);
  if (ascii == kMultibyte) return char_class(next_code_point(text, at));
  ++at;
  return ascii;
}

// The end of the run of characters of one class that goes on at `at`.
inline std::size_t run_end(std::string_view text, std::size_t at, CharClass wanted) {
  for (;;) {
    while (at < text.size() && byte_class(text, at) == wanted) ++at;
    if (at == text.size() || byte_class(text, at) != kMultibyte) return at;
    std::size_t next = at;
    if (next_class(text, next) != wanted) return at;
    at = next;
  }
}

// White space leaves its last character to what follows (`\s+(?!\S)`), unless it has only one.
inline std::size_t space_end(std::string_view text, std::size_t at) {
  std::size_t last = at, end = at;  // last: where the character before `end` starts
  while (end < text.size()) {
    std::size_t next = end;
    if (next_class(text, next) != CharClass::space) return last == at ? end : last;
    last = end;
    end = next;
  }
  return end;
}

}  // namespace mt
