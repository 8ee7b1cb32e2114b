#include "post/policy/stated_answer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "text/chat/chat_strings.h"
#include "text/python_regex.h"

namespace mt {
namespace {

using Replacement = std::pair<const char*, const char*>;

void replace(std::string& text, const Replacement& by) {
  const std::string_view from = by.first, to = by.second;
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

// The last so many characters, which are well-formed UTF-8.
std::string_view last_characters(std::string_view text, int count) {
  std::size_t at = text.size();
  while (at > 0 && count > 0)
    if ((static_cast<unsigned char>(text[--at]) & 0xC0) != 0x80) --count;
  return text.substr(at);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Without what Markdown and LaTeX put around a letter.
std::string without_marks(std::string_view text) {
  std::string plain(text);
  for (const char* const mark : {"**", "$\\boxed{", "}$", "\\$", "$\\text{", "$", "\\mathrm{",
                                 "\\{", "\\text", "\\(", "\\mathbf{", "{", "\\boxed"})
    replace(plain, {mark, ""});
  return plain;
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  static constexpr auto kReplaced = std::to_array<Replacement>({{"an ", ""},
                                                                {"a ", ""},
                                                                {".$", "$"},
                                                                {"\\$", ""},
                                                                {"\\ ", ""},
                                                                {" ", ""},
                                                                {"mbox", "text"},
                                                                {",\\text{and}", ","},
                                                                {"\\text{and}", ","},
                                                                {"\\text{m}", "\\text{}"}});
  static constexpr std::array kRemoved = {
      "square",     "ways",       "integers",  "dollars",      "mph",
      "inches",     "hours",      "km",        "units",        "\\ldots",
      "sue",        "points",     "feet",      "minutes",      "digits",
      "cents",      "degrees",    "cm",        "gm",           "pounds",
      "meters",     "meals",      "edges",     "students",     "childrentickets",
      "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
      "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
      "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\"",
      "\\dots"};
  static const std::array<std::pair<PythonRegex, const char*>, 7> kRules = {{
      {PythonRegex(R"((.*?)(\$)(.*?)(\$)(.*))"), R"($\3$)"},
      {PythonRegex(R"((\\text\{)(.*?)(\}))"), R"(\2)"},
      {PythonRegex(R"((\\textbf\{)(.*?)(\}))"), R"(\2)"},
      {PythonRegex(R"((\\overline\{)(.*?)(\}))"), R"(\2)"},
      {PythonRegex(R"((\\boxed\{)(.*)(\}))"), R"(\2)"},
      {PythonRegex(R"((frac)([^{])(.))"), R"(frac{\2}{\3})"},
      {PythonRegex(R"((sqrt)([^{]))"), R"(sqrt{\2})"},
  }};
  std::string text(answer.substr(answer.rfind('=') + 1));
  for (const Replacement& one : kReplaced) replace(text, one);
  for (const char* const one : kRemoved) replace(text, {one, ""});
  for (const auto& [expression, by] : kRules) text = expression.replace(text, by);
  replace(text, {"$", ""});
  std::string digits = text;
  replace(digits, {",", ""});
  return is_number(digits) ? digits : std::string(strip_text(text, Side::both));
}

bool states_answer(std::string_view text, std::string_view answer) {
  static const PythonRegex kStated(R"((?i)Answer\s*:\s*([^\n]+))");
  const std::string valid = replace_invalid_utf8(text);
  const auto found = kStated.find_all(last_characters(valid, 300));
  const std::string said = found.empty() ? "[INVALID]" : std::string(found.back().groups.front());
  return normalized_answer(said) == normalized_answer(replace_invalid_utf8(answer));
}

bool states_letter(std::string_view text, std::string_view answer) {
  static const PythonRegex kStated(R"((?i)Answer\s*:[ \t]*([A-Z]))");
  const std::string plain = without_marks(replace_invalid_utf8(text));
  const auto found = kStated.find_all(plain, 1);
  return !found.empty() && found[0].groups.front() == without_marks(answer);
}

}  // namespace mt
