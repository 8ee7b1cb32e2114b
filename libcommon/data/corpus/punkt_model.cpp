#include "data/corpus/punkt_model.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace mt {

// "type" is the lower-case word, or ##number##.
struct PunktModel::Token {
  std::u32string_view word;
  std::string type;
  bool ends = false, abbreviation = false, ellipsis = false;

  bool period_final() const { return word.back() == U'.'; }
  std::string type_without_period() const {
    return type.size() > 1 && type.back() == '.' ? type.substr(0, type.size() - 1) : type;
  }
  std::string type_without_final_period() const { return ends ? type_without_period() : type; }
  bool initial() const;
};

namespace {

// Where a word was seen: at the beginning of a sentence, inside, or either; with an upper-case
// letter first, or a lower-case one.
enum Context : std::uint32_t {
  kBeginUpper = 2,
  kMiddleUpper = 4,
  kUnknownUpper = 8,
  kBeginLower = 16,
  kMiddleLower = 32,
  kUnknownLower = 64,
};
constexpr std::uint32_t kUpper = kBeginUpper | kMiddleUpper | kUnknownUpper;
constexpr std::uint32_t kLower = kBeginLower | kMiddleLower | kUnknownLower;
constexpr const char* kNumberType = "##number##";

bool is_one_of(char32_t point, std::u32string_view set) { return set.find(point) != set.npos; }

bool is_digit(char32_t point) {
  return u_charType(static_cast<UChar32>(point)) == U_DECIMAL_DIGIT_NUMBER;
}

// Python's \w without \d.
bool is_letter_like(char32_t point) {
  const auto c = static_cast<UChar32>(point);
  if (is_digit(point)) return false;
  return point == U'_' || u_isalpha(c) != 0 ||
         u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool is_upper(char32_t point) { return u_isUUppercase(static_cast<UChar32>(point)) != 0; }
bool is_lower(char32_t point) { return u_isULowercase(static_cast<UChar32>(point)) != 0; }

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

std::vector<PunktModel::Token> tokens_of(std::u32string_view text) {
  std::vector<PunktModel::Token> tokens;
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

// Calls body(line, number) for the lines of a model's file, without their ends.
template <class Body>
void for_each_row(const std::string& path, Body&& body) {
  const std::string content = read_file(path);
  std::string_view rest = content;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    body(line, number);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
}

[[noreturn]] void fail_row(const std::string& path, std::int64_t number, const char* expected) {
  fail(Exit::bad_data, path, ":", number, ": expected ", expected);
}

}  // namespace

bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}
bool is_non_word(char32_t point) { return is_one_of(point, U"?!)\";}]*:@'({["); }
bool is_sentence_end(char32_t point) { return is_one_of(point, U".?!"); }

// One letter and a period.
bool PunktModel::Token::initial() const {
  return word.size() == 2 && word[1] == U'.' && is_letter_like(word[0]);
}

PunktModel::PunktModel(const std::string& folder) {
  const auto read_set = [](const std::string& path, std::unordered_set<std::string>& set) {
    for_each_row(path, [&](std::string_view row, std::int64_t) { set.emplace(row); });
  };
  read_set(folder + "/abbrev_types.txt", abbreviations_);
  read_set(folder + "/sent_starters.txt", starters_);
  read_collocations(folder + "/collocations.tab");
  read_contexts(folder + "/ortho_context.tab");
}

void PunktModel::read_collocations(const std::string& path) {
  for_each_row(path, [&](std::string_view row, std::int64_t number) {
    if (std::count(row.begin(), row.end(), '\t') != 1)
      fail_row(path, number, "two words with a tab between them");
    collocations_.emplace(row);
  });
}

void PunktModel::read_contexts(const std::string& path) {
  for_each_row(path, [&](std::string_view row, std::int64_t number) {
    const std::size_t tab = row.find('\t');
    std::uint32_t bits = 0;
    const char* const end = row.data() + row.size();
    if (tab == row.npos || std::from_chars(row.data() + tab + 1, end, bits).ptr != end ||
        tab + 1 == row.size())
      fail_row(path, number, "a word, a tab and a number");
    contexts_[std::string(row.substr(0, tab))] = bits;
  });
}

std::uint32_t PunktModel::context_of(const std::string& type) const {
  const auto found = contexts_.find(type);
  return found == contexts_.end() ? 0 : found->second;
}

// What a word says by itself.
void PunktModel::mark_by_type(Token& token) const {
  const std::u32string_view word = token.word;
  if (word.size() == 1 && is_sentence_end(word[0])) {
    token.ends = true;
  } else if (word.size() > 1 && word.find_first_not_of(U'.') == word.npos) {
    token.ellipsis = true;
  } else if (token.period_final() && !word.ends_with(U"..")) {
    const std::string lower = lower_utf8(word.substr(0, word.size() - 1));
    token.abbreviation = abbreviations_.contains(lower) ||
                         abbreviations_.contains(lower.substr(lower.rfind('-') + 1));
    token.ends = !token.abbreviation;
  }
}

PunktModel::Starter PunktModel::starts_sentence(const Token& token) const {
  if (token.word.size() == 1 && is_one_of(token.word[0], U";:,.!?")) return Starter::no;
  const std::uint32_t context = context_of(token.type_without_final_period());
  if (is_upper(token.word[0]) && (context & kLower) != 0 && (context & kMiddleUpper) == 0)
    return Starter::yes;
  if (is_lower(token.word[0]) && ((context & kUpper) != 0 || (context & kBeginLower) == 0))
    return Starter::no;
  return Starter::unknown;
}

// What the word behind it says of a word with a period.
void PunktModel::mark_by_next(Token& token, const Token& next) const {
  if (!token.period_final()) return;
  const std::string type = token.type_without_period();
  const std::string next_type = next.type_without_final_period();
  const bool initial = token.initial();
  if (collocations_.contains(type + '\t' + next_type)) {
    token.ends = false;
    token.abbreviation = true;
    return;
  }
  const Starter starter = starts_sentence(next);
  if ((token.abbreviation || token.ellipsis) && !initial &&
      (starter == Starter::yes || (is_upper(next.word[0]) && starters_.contains(next_type)))) {
    token.ends = true;
    return;
  }
  if (!initial && type != kNumberType) return;
  const bool name = starter == Starter::unknown && initial && is_upper(next.word[0]) &&
                    (context_of(next_type) & kLower) == 0;  // as in J. Bach
  if (starter == Starter::no || name) {
    token.ends = false;
    token.abbreviation = true;
  }
}

bool PunktModel::ends_sentence(std::u32string_view context) const {
  std::vector<Token> tokens = tokens_of(context);
  for (Token& token : tokens) mark_by_type(token);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    mark_by_next(tokens[i], tokens[i + 1]);
    if (tokens[i].ends) return true;
  }
  return false;
}

}  // namespace mt
