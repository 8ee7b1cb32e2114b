#include "data/corpus/punkt_words.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

namespace mt {
namespace {

bool is_one_of(char32_t point, std::u32string_view set) { return set.find(point) != set.npos; }

bool is_digit(char32_t point) {
  return u_charType(static_cast<UChar32>(point)) == U_DECIMAL_DIGIT_NUMBER;
}

// -? [.,]? \d [\d,.-]* to the end
bool is_number(std::u32string_view word) {
  if (word.starts_with(U'-')) word.remove_prefix(1);
  if (!word.empty() && is_one_of(word[0], U".,")) word.remove_prefix(1);
  return !word.empty() && is_digit(word[0]) &&
         std::all_of(word.begin(), word.end(),
                     [](char32_t c) { return is_digit(c) || is_one_of(c, U",.-"); });
}

// Periods with one white space character between them, as an ellipsis may be written.
bool is_spaced_ellipsis(std::u32string_view text) {
  return text.size() >= 5 && text[0] == U'.' && is_python_space(text[1]) && text[2] == U'.' &&
         is_python_space(text[3]) && text[4] == U'.';
}

// How long a run of several hyphens or periods `text` begins with; 0: none.
std::size_t punctuation_run(std::u32string_view text) {
  for (const char32_t mark : {U'-', U'.'}) {
    const std::size_t length = std::min(text.find_first_not_of(mark), text.size());
    if (length >= 2) return length;
  }
  if (!is_spaced_ellipsis(text)) return 0;
  std::size_t length = 5;
  while (length + 1 < text.size() && is_python_space(text[length]) && text[length + 1] == U'.')
    length += 2;
  return length;
}

bool has_punctuation_run(std::u32string_view text) {
  return text.starts_with(U"--") || text.starts_with(U"..") || is_spaced_ellipsis(text);
}

// Does a word end where `rest` begins?
bool is_word_end(std::u32string_view rest) {
  const auto ends = [](std::u32string_view text) {
    return text.empty() || is_python_space(text[0]) || is_non_word(text[0]) ||
           has_punctuation_run(text);
  };
  return ends(rest) || (rest[0] == U',' && ends(rest.substr(1)));
}

// The length of the token that `text`, which begins with no white space, begins with.
std::size_t token_length(std::u32string_view text) {
  if (const std::size_t run = punctuation_run(text)) return run;
  std::size_t length = 1;
  if (!is_one_of(text[0], U"(\"`{[:;&#*@)}]-,"))
    while (!is_word_end(text.substr(length))) ++length;
  return length;
}

}  // namespace

bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}
bool is_non_word(char32_t point) { return is_one_of(point, U"?!)\";}]*:@'({["); }
bool is_sentence_end(char32_t point) { return is_one_of(point, U".?!"); }

bool is_letter_like(char32_t point) {
  const auto c = static_cast<UChar32>(point);
  if (is_digit(point)) return false;
  return point == U'_' || u_isalpha(c) != 0 ||
         u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_upper(char32_t point) { return u_isUUppercase(static_cast<UChar32>(point)) != 0; }
bool is_lower(char32_t point) { return u_isULowercase(static_cast<UChar32>(point)) != 0; }

std::string type_without_period(const std::string& type) {
  return type.size() > 1 && type.back() == '.' ? type.substr(0, type.size() - 1) : type;
}

bool PunktWord::is_initial() const {
  return word.size() == 2 && word[1] == U'.' && is_letter_like(word[0]);
}

bool PunktWord::is_ellipsis() const {
  return word.size() > 1 && word.find_first_not_of(U'.') == word.npos;
}

bool PunktWord::is_end_mark() const { return word.size() == 1 && is_sentence_end(word[0]); }

std::string lower_utf8(std::u32string_view word) {
  const bool ascii = std::all_of(word.begin(), word.end(), [](char32_t c) { return c < 0x80; });
  std::string lower;
  if (ascii) {
    for (const char32_t c : word)
      lower += static_cast<char>(c >= U'A' && c <= U'Z' ? c + (U'a' - U'A') : c);
    return lower;
  }
  icu::UnicodeString text;
  for (const char32_t c : word) text.append(static_cast<UChar32>(c));
  text.toLower(icu::Locale::getRoot()).toUTF8String(lower);
  return lower;
}

std::uint32_t context_of(PunktPlace place, bool upper, bool lower) {
  const int shift = static_cast<int>(place);
  return (upper ? kBeginUpper << shift : 0U) | (lower ? kBeginLower << shift : 0U);
}

std::vector<PunktWord> punkt_words(std::u32string_view text) {
  std::vector<PunktWord> tokens;
  while (!text.empty()) {
    std::u32string_view line = text.substr(0, text.find(U'\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    while (!line.empty()) {
      const std::size_t length = is_python_space(line[0]) ? 0 : token_length(line);
      if (length > 0) {
        const std::u32string_view word = line.substr(0, length);
        tokens.push_back({word, is_number(word) ? kNumberType : lower_utf8(word)});
      }
      line.remove_prefix(std::max<std::size_t>(length, 1));
    }
  }
  return tokens;
}

}  // namespace mt
