#include "text/gpt2_split.h"

#include <array>

#include "base/utf8.h"
#include "text/unicode.h"

namespace mt {

// The class of each ASCII byte; bytes from 0x80 on have to be decoded first.
static constexpr auto kMultibyte = static_cast<CharClass>(4);
static constexpr std::array<CharClass, 256> kByteClass = [] {
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

static CharClass byte_class(std::string_view text, std::size_t at) {
  return kByteClass[static_cast<unsigned char>(text[at])];
}

// The class of the character at text[at]; `at` moves past it.
static CharClass next_class(std::string_view text, std::size_t& at) {
  const CharClass ascii = byte_class(text, at);
  if (ascii == kMultibyte) return char_class(next_code_point(text, at));
  ++at;
  return ascii;
}

// The end of the run of characters of one class that goes on at `at`.
static std::size_t run_end(std::string_view text, std::size_t at, CharClass wanted) {
  for (;;) {
    while (at < text.size() && byte_class(text, at) == wanted) ++at;
    if (at == text.size() || byte_class(text, at) != kMultibyte) return at;
    std::size_t next = at;
    if (next_class(text, next) != wanted) return at;
    at = next;
  }
}

// White space leaves its last character to what follows (`\s+(?!\S)`), unless it has only one.
static std::size_t space_end(std::string_view text, std::size_t at) {
  std::size_t last = at, end = at;  // last: where the character before `end` starts
  while (end < text.size()) {
    std::size_t next = end;
    if (next_class(text, next) != CharClass::space) return last == at ? end : last;
    last = end;
    end = next;
  }
  return end;
}

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

std::size_t gpt2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  std::size_t count = 0;
  for (; at < text.size() && count < ends.size(); ++count) ends[count] = at = piece_end(text, at);
  return count;
}

}  // namespace mt
