#include "retro/answer_match.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "text/hf/hf_normal_forms.h"
#include "text/hf/hf_tables.h"
#include "text/unicode/unicode.h"

namespace mt {

static std::string decomposed(std::string_view text) {
  return hf_normal_form(replace_invalid_utf8(text), NormalForm::nfd);
}

std::vector<std::string> answer_words(std::string_view text) {
  const std::string all = decomposed(text);
  std::vector<std::string> words;
  bool in_word = false;  // the last character was one of a word's
  for (std::size_t at = 0; at < all.size();) {
    const char32_t point = next_code_point(all, at);
    const Category c = category(point);
    const bool of_word = is_letter(c) || is_number(c) || is_mark(c),
               is_none = c == Category::space || c == Category::other || c == Category::format;
    if (!is_none) {
      if (!(of_word && in_word)) words.emplace_back();
      if (hf_is(point, HfFlag::lower))
        append_hf_lower(words.back(), point);
      else
        append_utf8(words.back(), point == U'\u03C2' ? U'\u03C3' : point);
    }
    in_word = of_word;
  }
  return words;
}

AnswerMatch::AnswerMatch(std::span<const std::string> answers, bool as_regex) {
  for (const std::string& answer : answers) {
    if (as_regex) {
      expressions_.emplace_back("(?im)" + decomposed(answer));
    } else {
      words_.push_back(answer_words(answer));
      if (words_.back().empty())
        fail(Exit::bad_config, "answer \"", answer,
             "\": has no words, and would be in any passage");
    }
  }
}

bool AnswerMatch::operator()(std::string_view passage) const {
  if (!expressions_.empty()) {
    const std::string text = decomposed(passage);
    return std::ranges::any_of(expressions_, [&](const PythonRegex& expression) {
      return !expression.find_all(text, 1).empty();
    });
  }
  const std::vector<std::string> words = answer_words(passage);
  return std::ranges::any_of(
      words_, [&](const auto& answer) { return !std::ranges::search(words, answer).empty(); });
}

// --- Lists of Python's --------------------------------------------------------------------------

namespace {

class ListReader {
 public:
  ListReader(std::string_view text, const std::string& place) : text_(text), place_(place) {}

  std::vector<std::string> read() {
    std::vector<std::string> texts;
    expect('[');
    while (!take(']')) {
      if (!texts.empty()) {
        expect(',');
        if (take(']')) break;
      }
      texts.push_back(read_text());
    }
    skip_space();
    if (at_ != text_.size()) refuse();
    return texts;
  }

 private:
  [[noreturn]] void refuse() const {
    fail(Exit::bad_data, place_, ": ", replace_invalid_utf8(text_),
         ": expected a list of texts, as Python writes it");
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse();
  }

  std::string read_text() {
    skip_space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) refuse();
    const char quote = text_[at_++];
    std::string text;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\')
        read_escape(text);
      else
        text += text_[at_++];
    }
    if (at_ >= text_.size()) refuse();
    ++at_;
    return text;
  }

  void read_escape(std::string& text) {
    if (++at_ >= text_.size()) refuse();
    const char c = text_[at_++];
    constexpr std::string_view kNames = "\\'\"nrtabfv", kMeant = "\\'\"\n\r\t\a\b\f\v";
    if (const std::size_t known = kNames.find(c); known != kNames.npos)
      return void(text += kMeant[known]);
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) return void((text += '\\') += c);  // as Python leaves what it does not know
    std::uint32_t point = 0;
    const std::string_view hex = text_.substr(at_, digits);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), point, 16);
    if (hex.size() != digits || error != std::errc() || end != hex.data() + digits ||
        point > 0x10FFFF)
      refuse();
    append_utf8(text, point);
    at_ += digits;
  }

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> python_texts(std::string_view list, const std::string& place) {
  return ListReader(list, place).read();
}

}  // namespace mt
