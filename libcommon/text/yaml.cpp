#include "text/yaml.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

// What a plain scalar stands for, by the rules of YAML 1.1 that PyYAML follows.
ChatValue plain_value(std::string_view text) {
  for (const std::string_view none : {"", "~", "null", "Null", "NULL"})
    if (text == none) return {};
  for (const std::string_view yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == yes) return true;
  for (const std::string_view no :
       {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == no) return false;
  const std::string_view bare =
      text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
  if (is_digits(bare) && (bare.size() == 1 || bare[0] != '0'))
    if (const auto number = python_parse_int(text, 10)) return *number;
  const std::size_t point = bare.find('.');
  if (point != bare.npos && bare.size() > 1 &&
      bare.find_first_not_of("0123456789.eE+-") == bare.npos)
    if (const auto number = python_parse_float(text)) return *number;
  return text;
}

class YamlReader {
 public:
  YamlReader(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  ChatValue document() {
    skip_blank();
    if (rest().starts_with("---")) {
      at_ += 3;
      skip_blank();
    }
    ChatValue value = at_end() ? ChatValue() : block(column());
    skip_blank();
    if (!at_end()) refuse("expected the end, or the indentation of what is above");
    return value;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Exit::bad_config, path_, ":", std::ranges::count(text_.substr(0, at_), '\n') + 1, ": ",
         parts...);
  }
  bool at_end() const { return at_ >= text_.size(); }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  char peek(std::size_t further = 0) const {
    return at_ + further < text_.size() ? text_[at_ + further] : '\n';
  }
  bool ends_word(std::size_t further) const {
    const char c = peek(further);
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
  }
  std::size_t line_begin() const {
    const std::size_t line = at_ == 0 ? text_.npos : text_.rfind('\n', at_ - 1);
    return line == text_.npos ? 0 : line + 1;
  }
  std::size_t column() const { return at_ - line_begin(); }
  std::size_t line_end() const { return std::min(text_.find('\n', at_), text_.size()); }
  void skip_spaces() {
    while (!at_end() && (peek() == ' ' || peek() == '\r')) ++at_;
  }
  bool at_comment() const {
    return peek() == '#' && (at_ == 0 || text_[at_ - 1] == ' ' || text_[at_ - 1] == '\n');
  }
  // To the next character that is no space, line end or comment.
  void skip_blank() {
    for (;;) {
      skip_spaces();
      if (at_end()) return;
      if (peek() == '\t') refuse("a tab; expected spaces");
      if (at_comment())
        at_ = line_end();
      else if (peek() == '\n')
        ++at_;
      else
        return;
    }
  }
  // Behind a value nothing else stands on its line.
  void end_line() {
    skip_spaces();
    if (!at_end() && peek() != '\n' && !at_comment()) refuse("expected the end of the line");
  }

  bool at_dash() const { return peek() == '-' && ends_word(1); }
  bool at_key() {
    const std::size_t begin = at_;
    bool found = false;
    if (peek() == '"' || peek() == '\'') {
      quoted();
      skip_spaces();
      found = peek() == ':' && ends_word(1);
    } else if (peek() != '[' && peek() != '{') {
      for (const std::size_t end = line_end(); at_ < end && !found && !at_comment(); ++at_)
        found = peek() == ':' && ends_word(1);
    }
    at_ = begin;
    return found;
  }

  // A node whose first character stands here, in this column.
  ChatValue block(std::size_t indent) {
    if (++depth_ > 64) refuse("nested deeper than 64");
    ChatValue value = at_dash()  ? sequence(indent)
                      : at_key() ? mapping(indent)
                                 : inline_value(indent == 0 ? 0 : indent - 1);
    --depth_;
    return value;
  }

  // Whether another entry follows in this column; what is further left ends the node.
  bool more(std::size_t indent) {
    skip_blank();
    if (at_end() || column() < indent) return false;
    if (column() > indent) refuse("indented further than the entries above");
    return true;
  }

  ChatValue sequence(std::size_t indent) {
    ChatValue list = ChatValue::list({});
    do {
      if (!at_dash()) return list;  // the next key of the mapping that this is in
      ++at_;
      list.push_back(value_after(indent, false));
    } while (more(indent));
    return list;
  }

  ChatValue mapping(std::size_t indent) {
    ChatValue dict = ChatValue::dict({});
    do {
      if (!at_key()) refuse("expected \"key: value\"");
      const std::string key = read_key();
      if (dict.find(key) != nullptr) refuse("the key \"", key, "\" stands twice");
      dict.set(key, value_after(indent, true));
    } while (more(indent));
    return dict;
  }

  std::string read_key() {
    std::string key;
    if (peek() == '"' || peek() == '\'') {
      key = quoted();
      skip_spaces();
    } else {
      const std::size_t begin = at_;
      while (!(peek() == ':' && ends_word(1))) ++at_;
      key = text_.substr(begin, at_ - begin);
      while (key.ends_with(' ')) key.pop_back();
    }
    ++at_;
    return key;
  }

  // What stands behind a key's colon or a list's dash, on its line or indented below.
  ChatValue value_after(std::size_t indent, bool of_key) {
    skip_spaces();
    if (!at_end() && peek() != '\n' && !at_comment())
      return of_key || (!at_dash() && !at_key()) ? inline_value(indent) : block(column());
    const std::size_t before = at_;
    skip_blank();
    if (!at_end() && (column() > indent || (of_key && column() == indent && at_dash())))
      return block(column());
    at_ = before;
    return {};
  }

  ChatValue inline_value(std::size_t indent) {
    const char c = peek();
    if (c == '|' || c == '>') return block_scalar(indent, c == '>');
    if (c == '"' || c == '\'' || c == '[' || c == '{') {
      ChatValue value = flow();
      end_line();
      return value;
    }
    refuse_others();
    return plain_value(plain(indent));
  }

  void refuse_others() const {
    const char c = peek();
    if (rest().starts_with("!function")) {
      const std::size_t end = line_end();
      refuse("\"", text_.substr(at_, end - at_), "\": code is not run; a template can say it");
    }
    if (c == '!' || c == '&' || c == '*' || c == '@' || c == '`' || c == '%')
      refuse("a value that begins with '", c, "' is not supported");
  }

  // A plain scalar, which goes on where the next lines are indented further.
  std::string plain(std::size_t indent) {
    std::string text;
    for (;;) {
      const std::size_t begin = at_;
      while (!at_end() && peek() != '\n' && !at_comment()) ++at_;
      std::string_view line = text_.substr(begin, at_ - begin);
      while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
      (text += text.empty() ? "" : " ") += line;
      const std::size_t before = at_;
      if (at_end() || at_comment()) return text;
      ++at_;
      skip_spaces();
      if (at_end() || peek() == '\n' || peek() == '#' || column() <= indent || at_dash() ||
          at_key()) {
        at_ = before;
        return text;
      }
    }
  }

  std::string block_scalar(std::size_t indent, bool folds) {
    ++at_;
    char end = 'c';  // - strips the newlines at its end, + keeps them all
    std::size_t content = 0;
    for (; peek() == '-' || peek() == '+' || ('1' <= peek() && peek() <= '9'); ++at_) {
      if (peek() == '-' || peek() == '+')
        end = peek();
      else
        content = indent + static_cast<std::size_t>(peek() - '0');
    }
    end_line();
    at_ = std::min(line_end() + 1, text_.size());
    std::vector<std::string_view> lines;
    while (!at_end()) {
      std::string_view line = text_.substr(at_, line_end() - at_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
      if (spaces < line.size()) {
        if (content == 0) content = spaces;
        if (spaces < content || spaces <= indent) break;
      }
      lines.push_back(line.substr(std::min(content, line.size())));
      at_ = std::min(line_end() + 1, text_.size());
    }
    if (!at_end()) --at_;  // what follows begins on a line of its own
    return ended(folds ? folded(lines) : joined(lines), end);
  }

  static std::string joined(const std::vector<std::string_view>& lines) {
    std::string text;
    for (const std::string_view line : lines) (text += line) += '\n';
    return text;
  }
  // Lines become one with a blank between; an empty line is a newline, and lines that are indented
  // stay as they are.
  static std::string folded(const std::vector<std::string_view>& lines) {
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += lines[i];
      const bool indented = lines[i].starts_with(' ');
      const std::size_t empty = i;
      while (i + 1 < lines.size() && lines[i + 1].empty()) ++i;
      const bool next_indented = i + 1 < lines.size() && lines[i + 1].starts_with(' ');
      const std::size_t breaks = i - empty;
      if (i + 1 == lines.size() || indented || next_indented)
        text.append(breaks + 1, '\n');
      else if (breaks > 0)
        text.append(breaks, '\n');
      else
        text += ' ';
    }
    return text;
  }
  static std::string ended(std::string text, char end) {
    if (end == '+') return text;
    while (text.ends_with('\n')) text.pop_back();
    if (end == 'c' && !text.empty()) text += '\n';
    return text;
  }

  ChatValue flow() {
    if (++depth_ > 64) refuse("nested deeper than 64");
    ChatValue value;
    if (peek() == '"' || peek() == '\'') {
      value = quoted();
    } else if (peek() == '[') {
      value = ChatValue::list({});
      for (++at_; !closes(']');) {
        value.push_back(flow());
        comma(']');
      }
    } else if (peek() == '{') {
      value = ChatValue::dict({});
      for (++at_; !closes('}');) {
        const ChatValue key = flow();
        skip_blank();
        if (peek() != ':') refuse("expected \"key: value\"");
        ++at_;
        skip_blank();
        value.set(python_text(key), flow());
        comma('}');
      }
    } else {
      refuse_others();
      const std::size_t begin = at_;
      while (!at_end() && std::string_view(",[]{}\n").find(peek()) == std::string_view::npos &&
             !(peek() == ':' && ends_word(1)) && !at_comment())
        ++at_;
      std::string_view word = text_.substr(begin, at_ - begin);
      while (word.ends_with(' ') || word.ends_with('\r')) word.remove_suffix(1);
      if (word.empty()) refuse("expected a value");
      value = plain_value(word);
    }
    --depth_;
    return value;
  }
  bool closes(char bracket) {
    skip_blank();
    if (at_end()) refuse("expected '", bracket, "'");
    if (peek() != bracket) return false;
    ++at_;
    return true;
  }
  void comma(char bracket) {
    skip_blank();
    if (peek() == ',')
      ++at_;
    else if (peek() != bracket)
      refuse("expected ',' or '", bracket, "'");
  }

  // A quoted scalar, whose line breaks are blanks.
  std::string quoted() {
    const char quote = peek();
    const std::size_t begin = at_++;
    std::string text;
    for (;;) {
      if (at_end()) {
        at_ = begin;
        refuse("this string has no end");
      }
      const char c = text_[at_++];
      if (c == quote) {
        if (quote == '"' || peek() != '\'' || at_end()) return text;
        ++at_;
        text += '\'';
      } else if (c == '\\' && quote == '"') {
        escape(text);
      } else if (c == '\n') {
        fold(text);
      } else {
        text += c;
      }
    }
  }
  void skip_indent() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) ++at_;
  }
  void fold(std::string& text) {
    while (text.ends_with(' ') || text.ends_with('\r')) text.pop_back();
    std::size_t empty = 0;
    for (skip_indent(); !at_end() && peek() == '\n'; skip_indent()) {
      ++at_;
      ++empty;
    }
    if (empty == 0)
      text += ' ';
    else
      text.append(empty, '\n');
  }
  void escape(std::string& text) {
    constexpr std::string_view kNames = "0abtnvfre \"/\\_",
                               kBytes{"\0\a\b\t\n\v\f\r\x1B \"/\\", 13};
    const char c = at_end() ? '\0' : text_[at_++];
    if (c == '\n') return skip_indent();
    const std::size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (width > 0) {
      std::uint32_t point = 0;
      const std::string_view digits = rest().substr(0, width);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
      if (error != std::errc() || digits.size() < width || end != digits.data() + width ||
          point > 0x10FFFF || (0xD800 <= point && point < 0xE000))
        refuse("the escape \"\\", c, "\" needs ", width, " digits that are a character's");
      at_ += width;
      append_utf8(text, point);
    } else if (const std::size_t name = kNames.find(c); name < kBytes.size()) {
      text += kBytes[name];
    } else {
      refuse("the escape \"\\", c, "\" is not supported");
    }
  }

  std::string_view text_, path_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ChatValue parse_yaml(std::string_view text, std::string_view path) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (next_code_point(text, at) == kReplacement && text.substr(begin, 3) != "\xEF\xBF\xBD")
      fail(Exit::bad_config, path, ": not UTF-8");
  }
  try {
    return YamlReader(text, path).document();
  } catch (const ChatFailure& failure) {
    fail(Exit::bad_config, path, ": ", failure.what);
  }
}

}  // namespace mt
