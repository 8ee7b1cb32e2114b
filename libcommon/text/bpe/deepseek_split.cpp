#include "text/bpe/deepseek_split.h"

#include <array>
#include <cstdint>
#include <optional>

#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

// What a character is to the third expression, which sees a text from one number, or end of a run
// of the second one's characters, to the next: `outside` is beyond that.
enum class Kind : std::uint8_t { number, letter, sign, blank, odd, outside };

// Does the second expression take it?
bool is_script(char32_t point) {
  return (point >= 0x4E00 && point <= 0x9FA5) || (point >= 0x3040 && point <= 0x30FF);
}

constexpr std::array<Kind, 128> kAscii = [] {
  std::array<Kind, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    kinds[c] = c >= '0' && c <= '9'  ? Kind::number
               : is_letter           ? Kind::letter
               : is_blank            ? Kind::blank
               : c > ' ' && c < 0x7F ? Kind::sign
                                     : Kind::odd;
  }
  return kinds;
}();

Kind kind_of(char32_t point) {
  const Category c = category(point);
  if (is_letter(c) || is_mark(c)) return Kind::letter;
  if (is_number(c)) return Kind::number;
  if (c == Category::space) return Kind::blank;
  const bool is_sign = c == Category::connector || c == Category::punctuation ||
                       c == Category::symbol || c == Category::letter_symbol;
  return is_sign ? Kind::sign : Kind::odd;
}

// The kind of the character at text[at], seen from a run that is or is not of is_script(); `at`
// moves past it.
Kind next_kind(std::string_view text, std::size_t& at, bool script) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte >= 0x80) {
    const char32_t point = next_code_point(text, at);
    return is_script(point) == script ? kind_of(point) : Kind::outside;
  }
  ++at;
  return script ? Kind::outside : kAscii[byte];
}

std::size_t run_end(std::string_view text, std::size_t at, Kind wanted, bool script) {
  for (std::size_t next = at; next < text.size() && next_kind(text, next, script) == wanted;)
    at = next;
  return at;
}

bool is_ascii_letter(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z';
}

std::size_t signs_end(std::string_view text, std::size_t at, bool script) {
  at = run_end(text, at, Kind::sign, script);
  while (!script && at < text.size() && (text[at] == '\r' || text[at] == '\n')) ++at;
  return at;
}

// White space up to its last line end; without one all of it, where what the third expression sees
// ends there, else all but the last character, unless it is the only one.
std::size_t blanks_end(std::string_view text, std::size_t at) {
  std::size_t last = at, end = at, line_end = at;  // last: where the character before `end` begins
  Kind after = Kind::number;
  for (std::size_t next = at; next < text.size(); last = end, end = next) {
    after = next_kind(text, next, false);
    if (after != Kind::blank) break;
    if (text[end] == '\r' || text[end] == '\n') line_end = next;
  }
  if (line_end > at) return line_end;
  const bool closed = end == text.size() || after == Kind::number || after == Kind::outside;
  return closed || last == at ? end : last;
}

// Where the third expression's match at text[at] ends, a character of the kind `first` before
// `next`; nothing if there is none.
std::optional<std::size_t> match_end(std::string_view text, std::size_t at, std::size_t next,
                                     Kind first, bool script) {
  if (first == Kind::letter) return run_end(text, next, Kind::letter, script);
  if (first == Kind::sign) {
    std::size_t end = next;
    if (next == at + 1)  // of ASCII
      while (end < text.size() && is_ascii_letter(text[end])) ++end;
    return end > next ? end : signs_end(text, next, script);
  }
  if (next < text.size() && text[at] != '\r' && text[at] != '\n') {
    std::size_t second = next;
    const Kind kind = next_kind(text, second, script);
    if (kind == Kind::letter) return run_end(text, second, Kind::letter, script);
    if (kind == Kind::sign && text[at] == ' ') return signs_end(text, second, script);
  }
  return first == Kind::blank ? std::optional(blanks_end(text, at)) : std::nullopt;
}

std::size_t numbers_end(std::string_view text, std::size_t at) {
  for (int count = 1; count < 3 && at < text.size(); ++count) {
    std::size_t next = at;
    if (next_kind(text, next, false) != Kind::number) break;
    at = next;
  }
  return at;
}

std::size_t piece_end(std::string_view text, std::size_t at) {
  std::size_t next = at;
  Kind kind = next_kind(text, next, false);
  const bool script = kind == Kind::outside;
  if (script) kind = next_kind(text, next = at, true);
  if (kind == Kind::number) return numbers_end(text, next);
  if (const auto end = match_end(text, at, next, kind, script)) return *end;
  for (at = next; at < text.size(); at = next) {  // what nothing takes
    kind = next_kind(text, next, script);
    if (kind == Kind::number || kind == Kind::outside || match_end(text, at, next, kind, script))
      break;
  }
  return at;
}

}  // namespace

std::size_t deepseek_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  std::size_t count = 0;
  for (; at < text.size() && count < ends.size(); ++count) ends[count] = at = piece_end(text, at);
  return count;
}

}  // namespace mt
