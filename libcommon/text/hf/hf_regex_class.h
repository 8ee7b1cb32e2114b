// The classes of a regular expression in Oniguruma's syntax: what stands between [ and ], and the
// escapes that stand for one or more characters, as sets of code points.
#pragma once

#include <optional>
#include <string_view>

#include "text/unicode/code_points.h"

namespace mt {

class JsonObject;

// A place in an expression.  Whatever cannot be read is refused with it, by the object of the file
// that the expression is a member of.
class HfRegexText {
 public:
  HfRegexText(std::string_view text, const JsonObject& where) : text_(text), where_(where) {}

  bool at_end() const { return at_ == text_.size(); }
  char next() const { return text_[at_]; }
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view all() const { return text_; }
  void skip(std::size_t bytes) { at_ += bytes; }
  bool take(std::string_view token);
  char32_t take_character();
  // What is before the next `end`, which is passed over; refuses `what` where there is none.
  std::string_view take_until(char end, std::string_view what);
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  std::string_view text_;
  const JsonObject& where_;
  std::size_t at_ = 0;
};

// Behind a [, up to its ]: characters, ranges, escapes, classes, [:NAME:], and && between them.
CodePoints hf_regex_bracket(HfRegexText& text, bool ignore_case);

// Behind a backslash: \w \s \d \h \p{NAME} \p{^NAME} and their opposites; nothing for another one.
// Between [ and ] \w has six characters less, as Oniguruma has it.
std::optional<CodePoints> hf_regex_class_escape(HfRegexText& text, bool in_bracket = false);

// Behind a backslash: a character by its number or name, or itself.
char32_t hf_regex_character_escape(HfRegexText& text);

// A set with all characters that differ from one of its own in case alone.
CodePoints in_any_case(CodePoints set);

// The property by this name, which is known to be there.
CodePoints known_property(std::string_view name);

}  // namespace mt
