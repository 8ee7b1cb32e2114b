// Words as Punkt sees them, by nltk 3.9.1's rules (PunktLanguageVars, PunktToken): what models are
// trained on and what they judge.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

// What Python's str calls white space.
bool is_python_space(char32_t point);
// No word has one of ? ! ) " ; } ] * : @ ' ( { and [ inside.
bool is_non_word(char32_t point);
bool is_sentence_end(char32_t point);  // . ? !
// Python's \w without \d: letters, and numbers that are no digits.
bool is_letter_like(char32_t point);
bool is_upper(char32_t point);
bool is_lower(char32_t point);

std::string lower_utf8(std::u32string_view word);

// The type of all numbers.
inline constexpr const char* kNumberType = "##number##";

// `type` is the lower-case word, or kNumberType.
struct PunktWord {
  std::u32string_view word;
  std::string type;

  bool period_final() const { return word.back() == U'.'; }
  bool is_initial() const;   // one letter and a period
  bool is_ellipsis() const;  // several periods
  bool is_end_mark() const;  // one period, question or exclamation mark
  bool is_number() const { return type == kNumberType; }
};

std::string type_without_period(const std::string& type);

// Bits for where a word was seen and how it began there, with an upper-case letter or a lower-case
// one: nltk's numbers.
enum PunktContext : std::uint32_t {
  kBeginUpper = 2,
  kMiddleUpper = 4,
  kUnknownUpper = 8,
  kBeginLower = 16,
  kMiddleLower = 32,
  kUnknownLower = 64,
};

// Where in a sentence a word stands.
enum class PunktPlace { begin, middle, unknown };
std::uint32_t context_of(PunktPlace place, bool upper, bool lower);

// The words of a text, which may have several lines; they point into it.
std::vector<PunktWord> punkt_words(std::u32string_view text);

}  // namespace mt
