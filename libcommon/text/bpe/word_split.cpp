#include "text/bpe/word_split.h"

#include <optional>

#include "text/bpe/char_runs.h"

namespace mt {
namespace {

// In what the patterns differ.
struct Rules {
  enum class Contractions { none, alone, after_word } contractions = Contractions::none;
  bool cased = false;         // a change from lower to upper case ends a word; marks are letters
  int digits = 1;             // at most so many numbers in a piece
  bool slash = false;         // signs take a slash along, as they take line ends
  bool trailing_one = false;  // white space at the end of the text is one piece
};

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

// The length of the contraction at text[at], in either case; 0 when there is none.
std::size_t contraction_length(std::string_view text, std::size_t at) {
  if (text[at] != '\'') return 0;
  const std::string_view tail = text.substr(at + 1, 2);
  const auto lower = [&](std::size_t i) {
    return i < tail.size() ? static_cast<char>(tail[i] | 0x20) : '\0';
  };
  const char first = lower(0), second = lower(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  return tail == "\u017F" ? 3 : 0;
}

// --- Words whose case counts: U*W+ and U+W*. ---

struct Letter {
  bool upper = false, lower = false;  // is it in U, in W?
};

Letter letter_at(std::string_view text, std::size_t& at) {
  const auto c = static_cast<unsigned char>(text[at]);
  if (c < 0x80) {
    ++at;
    return {c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z'};
  }
  switch (category(next_code_point(text, at))) {
    case Category::upper:
      return {true, false};
    case Category::lower:
      return {false, true};
    case Category::letter:
    case Category::mark:
    case Category::spacing_mark:
      return {true, true};
    default:
      return {};
  }
}

std::size_t lower_end(std::string_view text, std::size_t at) {
  for (std::size_t next = at; next < text.size() && letter_at(text, next).lower;) at = next;
  return at;
}

struct CasedWord {
  std::size_t upper_end = 0;                            // of U* at the start
  std::optional<std::size_t> mixed_end = std::nullopt;  // of U*W+
};

// U*W+ takes all of U* where W follows; else U* gives back up to its last letter that is in W too.
CasedWord cased_word(std::string_view text, std::size_t at) {
  CasedWord word{at};
  for (std::size_t next = at; next < text.size(); word.upper_end = next) {
    const Letter letter = letter_at(text, next);
    if (!letter.upper) {
      if (letter.lower) word.mixed_end = lower_end(text, next);
      break;
    }
    if (letter.lower) word.mixed_end = next;
  }
  return word;
}

// The end of the word at `at`, whose leading sign, if it has one, ends at `inner`; nothing if there
// is no word.  The order is that of the alternatives, each with the sign first.
std::optional<std::size_t> cased_end(std::string_view text, std::size_t at, std::size_t inner) {
  const CasedWord after = cased_word(text, inner);
  if (after.mixed_end || inner == at)
    return after.mixed_end        ? after.mixed_end
           : after.upper_end > at ? std::optional(after.upper_end)
                                  : std::nullopt;
  const CasedWord whole = cased_word(text, at);  // the sign may be a mark, and so a letter
  if (whole.mixed_end) return whole.mixed_end;
  if (after.upper_end > inner) return after.upper_end;
  return std::nullopt;
}

// --- Pieces. ---

template <Rules rules>
std::optional<std::size_t> word_end(std::string_view text, std::size_t at, std::size_t next,
                                    CharClass first) {
  const bool sign =
      first != CharClass::letter && first != CharClass::number && !is_line_end(text[at]);
  if (first != CharClass::letter && !sign) return std::nullopt;
  if constexpr (rules.cased) {
    const auto end = cased_end(text, at, sign ? next : at);
    if (end && *end < text.size() && rules.contractions == Rules::Contractions::after_word)
      return *end + contraction_length(text, *end);
    return end;
  } else {
    if (!sign) return run_end(text, next, CharClass::letter);
    const std::size_t end = run_end(text, next, CharClass::letter);
    return end > next ? std::optional(end) : std::nullopt;
  }
}

std::size_t numbers_end(std::string_view text, std::size_t at, int most) {
  for (int count = 1; count < most && at < text.size(); ++count) {
    std::size_t next = at;
    if (next_class(text, next) != CharClass::number) break;
    at = next;
  }
  return at;
}

template <Rules rules>
std::size_t signs_end(std::string_view text, std::size_t at) {
  at = run_end(text, at, CharClass::other);
  while (at < text.size() && (is_line_end(text[at]) || (rules.slash && text[at] == '/'))) ++at;
  return at;
}

// White space up to its last line end; without one, as GPT-2 takes it.
template <Rules rules>
std::size_t blanks_end(std::string_view text, std::size_t at) {
  const std::size_t end = run_end(text, at, CharClass::space);
  if (rules.trailing_one && end == text.size()) return end;
  const std::size_t line_end = text.substr(at, end - at).find_last_of("\r\n");
  return line_end != text.npos ? at + line_end + 1 : space_end(text, at);
}

template <Rules rules>
std::size_t piece_end(std::string_view text, std::size_t at) {
  if constexpr (rules.contractions == Rules::Contractions::alone)
    if (const std::size_t length = contraction_length(text, at)) return at + length;
  std::size_t next = at;
  const CharClass first = next_class(text, next);
  if (const auto end = word_end<rules>(text, at, next, first)) return *end;
  if (first == CharClass::number) return numbers_end(text, next, rules.digits);
  if (first == CharClass::other) return signs_end<rules>(text, next);
  if (text[at] == ' ' && next < text.size()) {  // the optional space of signs
    std::size_t second = next;
    if (next_class(text, second) == CharClass::other) return signs_end<rules>(text, second);
  }
  return blanks_end<rules>(text, at);
}

template <Rules rules>
std::size_t split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  std::size_t count = 0;
  for (; at < text.size() && count < ends.size(); ++count)
    ends[count] = at = piece_end<rules>(text, at);
  return count;
}

}  // namespace

std::size_t megatron_v1_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{}>(text, at, ends);
}

std::size_t megatron_v2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{.cased = true, .slash = true}>(text, at, ends);
}

std::size_t o200k_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{
      .contractions = Rules::Contractions::after_word, .cased = true, .digits = 3, .slash = true}>(
      text, at, ends);
}

std::size_t llama3_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{.contractions = Rules::Contractions::alone, .digits = 3}>(text, at, ends);
}

std::size_t qwen2_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{.contractions = Rules::Contractions::alone}>(text, at, ends);
}

std::size_t cl100k_split(std::string_view text, std::size_t at, std::span<std::size_t> ends) {
  return split<Rules{
      .contractions = Rules::Contractions::alone, .digits = 3, .trailing_one = true}>(text, at,
                                                                                      ends);
}

}  // namespace mt
