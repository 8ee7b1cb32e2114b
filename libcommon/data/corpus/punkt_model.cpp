#include "data/corpus/punkt_model.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/corpus/punkt_words.h"

namespace mt {

struct PunktModel::Token : PunktWord {
  bool ends = false, abbreviation = false, ellipsis = false;

  std::string type_without_final_period() const { return ends ? type_without_period(type) : type; }
};

namespace {

constexpr std::uint32_t kUpper = kBeginUpper | kMiddleUpper | kUnknownUpper;
constexpr std::uint32_t kLower = kBeginLower | kMiddleLower | kUnknownLower;

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
  if (token.is_end_mark()) {
    token.ends = true;
  } else if (token.is_ellipsis()) {
    token.ellipsis = true;
  } else if (token.period_final() && !word.ends_with(U"..")) {
    const std::string lower = lower_utf8(word.substr(0, word.size() - 1));
    token.abbreviation = abbreviations_.contains(lower) ||
                         abbreviations_.contains(lower.substr(lower.rfind('-') + 1));
    token.ends = !token.abbreviation;
  }
}

PunktModel::Starter PunktModel::starts_sentence(const Token& token) const {
  if (token.word.size() == 1 &&
      std::u32string_view(U";:,.!?").find(token.word[0]) != token.word.npos)
    return Starter::no;
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
  const std::string type = type_without_period(token.type);
  const std::string next_type = next.type_without_final_period();
  const bool initial = token.is_initial();
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
  std::vector<Token> tokens;
  for (PunktWord& word : punkt_words(context))
    mark_by_type(tokens.emplace_back(Token{std::move(word)}));
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    mark_by_next(tokens[i], tokens[i + 1]);
    if (tokens[i].ends) return true;
  }
  return false;
}

}  // namespace mt
