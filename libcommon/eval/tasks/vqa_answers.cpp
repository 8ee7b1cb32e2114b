#include "eval/tasks/vqa_answers.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"
#include "text/python_regex.h"

namespace mt {
namespace {

// The contractions that answers are written with: the VQA evaluation replaces each one's form
// without apostrophes, and, where it has two, each form with one of them, by what stands here.
constexpr auto kContractions = std::to_array<std::string_view>({
    "ain't",       "aren't",         "can't",        "could've",      "couldn't",
    "couldn't've", "didn't",         "doesn't",      "don't",         "hadn't",
    "hadn't've",   "hasn't",         "haven't",      "he'd",          "he'd've",
    "he's",        "how'd",          "how'll",       "how's",         "isn't",
    "it'd",        "it'd've",        "it'll",        "ma'am",         "mightn't",
    "mightn't've", "might've",       "mustn't",      "must've",       "needn't",
    "not've",      "o'clock",        "oughtn't",     "shan't",        "she'd've",
    "should've",   "shouldn't",      "shouldn't've", "somebody'd've", "somebody'll",
    "somebody's",  "someone'd",      "someone'd've", "someone'll",    "someone's",
    "something'd", "something'd've", "something'll", "that's",        "there'd",
    "there'd've",  "there're",       "there's",      "they'd",        "they'd've",
    "they'll",     "they're",        "they've",      "'twas",         "wasn't",
    "we'd've",     "we've",          "weren't",      "what'll",       "what're",
    "what's",      "what've",        "when's",       "where'd",       "where's",
    "where've",    "who'd",          "who'd've",     "who'll",        "who's",
    "who've",      "why'll",         "why're",       "why's",         "won't",
    "would've",    "wouldn't",       "wouldn't've",  "y'all",         "y'all'll",
    "y'all'd've",  "you'd",          "you'd've",     "you'll",        "you're",
    "you've",      "'ow's'at",
});

// By what stands for it.  "somebody'd" loses its apostrophe.
std::map<std::string, std::string, std::less<>> make_contractions() {
  std::map<std::string, std::string, std::less<>> all{{"somebody'd", "somebodyd"}};
  for (const std::string_view one : kContractions) {
    std::vector<std::size_t> marks;
    for (std::size_t i = 0; i < one.size(); ++i)
      if (one[i] == '\'') marks.push_back(i);
    for (const std::size_t mark : marks) {
      std::string without(one);
      without.erase(mark, 1);
      all.emplace(std::move(without), one);
    }
  }
  return all;
}

constexpr auto kNumbers = std::to_array<std::string_view>(
    {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"});

std::string without_punctuation(std::string_view text) {
  static const PythonRegex kComma(R"(\d,\d)"), kPeriod(R"(\.(?!\d))");
  const bool has_comma = !kComma.find_all(text, 1).empty();
  std::string made(text);
  for (const char mark : std::string_view(";/[]\"{}()=+\\_-><@`,?!")) {
    const std::string behind{mark, ' '}, before{' ', mark};
    const bool stands_alone =
        text.find(behind) != text.npos || text.find(before) != text.npos || has_comma;
    made = replace_text(made, std::string_view(&mark, 1), stands_alone ? "" : " ", -1);
  }
  return kPeriod.replace(made, "", 32);  // as many as re.UNICODE, which is taken for their number
}

// White space that the evaluation takes from answers before it compares them.
std::string plain(std::string_view text) {
  std::string made(text);
  for (char& c : made)
    if (c == '\n' || c == '\t') c = ' ';
  return std::string(strip_text(made, Side::both));
}

// "1,000", "$7" and "5%" are numbers, too.
std::optional<double> number_of(std::string_view text) {
  return python_parse_float(strip_text(replace_text(text, ",", "", -1), Side::both, " $%"));
}

// Returns how many code points have to be put in, left out or replaced to make b of a.
std::size_t edit_distance(const std::vector<std::string_view>& a,
                          const std::vector<std::string_view>& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = a[i] == b[j] ? diagonal : 1 + std::min({diagonal, above, row[j]});
      diagonal = above;
    }
  }
  return row.back();
}

std::string lower_words(std::string_view text) {
  const std::string lower = lower_text(text);
  std::string made;
  for (const std::string_view word : split_space(lower, -1)) {
    if (!made.empty()) made += ' ';
    made += word;
  }
  return made;
}

}  // namespace

std::string vqa_answer(std::string_view text) {
  static const auto kForms = make_contractions();
  std::string made;
  const std::string lower = lower_text(without_punctuation(text));
  for (const std::string_view word : split_space(lower, -1)) {
    if (word == "a" || word == "an" || word == "the") continue;
    if (!made.empty()) made += ' ';
    const auto* const number = std::ranges::find(kNumbers, word);
    const auto form = kForms.find(word);
    if (word == "none")
      made += '0';
    else if (number != kNumbers.end())
      made += std::to_string(number - kNumbers.begin());
    else
      made += form == kForms.end() ? word : std::string_view(form->second);
  }
  return made;
}

double vqa_accuracy(std::string_view answer, std::span<const std::string> people) {
  if (people.empty()) return 0;
  std::string said = plain(answer);
  std::vector<std::string> theirs;
  for (const std::string& one : people) theirs.push_back(plain(one));
  if (std::set<std::string>(theirs.begin(), theirs.end()).size() > 1) {
    said = vqa_answer(said);
    for (std::string& one : theirs) one = vqa_answer(one);
  }
  const auto same = std::ranges::count(theirs, said);
  double sum = 0;
  for (const std::string& one : theirs)
    sum += std::min(1.0, static_cast<double>(same - (one == said ? 1 : 0)) / 3);
  return sum / static_cast<double>(theirs.size());
}

double relaxed_accuracy(std::string_view answer, std::string_view right) {
  if (lower_words(answer) == lower_words(right)) return 1;
  const std::optional<double> said = number_of(answer), wanted = number_of(right);
  if (!said || !wanted) return 0;
  const auto [least, most] = std::minmax({*wanted * 0.95, *wanted * 1.05});
  return least <= *said && *said <= most ? 1 : 0;
}

double anls(std::string_view answer, std::span<const std::string> right) {
  const std::string said = lower_words(answer);
  double best = 0;
  for (const std::string& one : right) {
    const std::string wanted = lower_words(one);
    const auto a = each_point(said), b = each_point(wanted);
    const std::size_t length = std::max(a.size(), b.size());
    const double distance =
        length == 0 ? 0 : static_cast<double>(edit_distance(a, b)) / static_cast<double>(length);
    if (distance < 0.5) best = std::max(best, 1 - distance);
  }
  return best;
}

}  // namespace mt
