#include "base/json_place.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace mt {
namespace {

bool is_digit(char c) { return '0' <= c && c <= '9'; }

// Each step is false where it finds a mistake, at which at() then is.
class JsonWalk {
 public:
  explicit JsonWalk(std::string_view text) : text_(text) {}

  std::size_t at() const { return at_; }

  bool all() {
    if (!value()) return false;
    for (;;) {  // behind a value
      skip_space();
      if (open_.empty()) return at_ == text_.size();
      if (take(open_.back())) {
        open_.pop_back();
      } else if (!take(',') || (open_.back() == '}' && !key()) || !value()) {
        return false;
      }
    }
  }

 private:
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  // A scalar, or the brackets before the first one; only an empty object or array is left open.
  bool value() {
    for (;;) {
      skip_space();
      const char bracket = next();
      if (bracket != '{' && bracket != '[') return scalar();
      open_ += bracket == '{' ? '}' : ']';
      ++at_;
      skip_space();
      if (next() == open_.back()) return true;
      if (bracket == '{' && !key()) return false;
    }
  }

  bool key() {
    skip_space();
    if (!string()) return false;
    skip_space();
    return take(':');
  }

  bool scalar() {
    if (next() == '"') return string();
    if (next() == '-' || is_digit(next())) return number();
    for (const std::string_view word : {"true", "false", "null"})
      if (next() == word[0]) return literal(word);
    return false;
  }

  bool literal(std::string_view word) {
    for (const char c : word)
      if (!take(c)) return false;
    return true;
  }

  bool digits() {
    if (!is_digit(next())) return false;
    while (is_digit(next())) ++at_;
    return true;
  }

  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (!take('e') && !take('E')) return true;
    if (!take('+')) take('-');
    return digits();
  }

  bool string() {
    if (!take('"')) return false;
    while (!take('"')) {
      if (take('\\')) {
        if (!escape()) return false;
      } else if (static_cast<unsigned char>(next()) < ' ') {  // or the end
        return false;
      } else if (!character()) {
        return false;
      }
    }
    return true;
  }

  bool character() {
    std::size_t end = at_;
    if (next_code_point(text_, end) == kReplacement && !text_.substr(at_).starts_with("\uFFFD"))
      return false;
    at_ = end;
    return true;
  }

  // Behind the backslash.
  bool escape() {
    if (!take('u')) return std::string_view("\"\\/bfnrt").find(next()) != text_.npos && ++at_;
    unsigned first = 0, second = 0;
    if (!hexadecimal(first) || first >> 10 == 0x37) return false;
    if (first >> 10 != 0x36) return true;
    return take('\\') && take('u') && hexadecimal(second) && second >> 10 == 0x37;
  }

  bool hexadecimal(unsigned& value) {
    const char* begin = text_.data() + at_;
    const char* end = begin + std::min<std::size_t>(4, text_.size() - at_);
    const char* stop = std::from_chars(begin, end, value, 16).ptr;
    at_ += static_cast<std::size_t>(stop - begin);
    return stop == begin + 4;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string open_;  // what closes the objects and arrays around at_
};

}  // namespace

std::string json_place(std::string_view text) {
  JsonWalk walk(text);
  return walk.all() ? std::string() : concat("byte ", walk.at(), ": ");
}

static std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string other_json_form(std::string_view line) {
  line = without_blanks(line);
  const std::string_view inside =
      without_blanks(line.substr(std::min<std::size_t>(1, line.size())));
  if (line == "[" || (line.starts_with('[') && inside.starts_with('{')))
    return "a JSON array, expected one object a line, which jq -c '.[]' makes of it";
  if (line.starts_with('{') && line.ends_with("},") &&
      std::ranges::count(line, '{') == std::ranges::count(line, '}'))
    return "a comma behind the object, expected one object a line";
  if (line.starts_with('{') && std::string_view("{[,").find(line.back()) != line.npos)
    return "an object over several lines, expected one object a line, which jq -c . makes of it";
  return {};
}

void check_begins_object(std::string_view line, std::string_view place) {
  if (const std::string form = other_json_form(line); !form.empty())
    fail(Exit::bad_data, place, ": ", form);
  line = without_blanks(line);
  if (line.empty()) fail(Exit::bad_data, place, ": empty line, expected a JSON object");
  if (!line.starts_with('{')) fail(Exit::bad_data, place, ": not a JSON object");
}

}  // namespace mt
