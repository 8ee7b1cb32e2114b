#include "text/chat/chat_lexer.h"

#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

using Kind = ChatToken::Kind;

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool begins_name(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

class Lexer {
 public:
  Lexer(const std::string& source, bool trims) : source_(source), trims_(trims) {}

  std::vector<ChatToken> tokens() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      put_data(tag);
      at_ = tag;
      if (tag < source_.size()) read_tag();
    }
    put(Kind::end, source_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(std::size_t at, std::string what) const {
    throw ChatSyntaxError{at, std::move(what)};
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool stands_at(std::size_t at, char c) const { return at < source_.size() && source_[at] == c; }

  void put(Kind kind, std::size_t at, std::string text = {}, ChatValue number = {}) {
    tokens_.push_back({kind, std::move(text), std::move(number), at});
  }

  void skip_space() {
    for (std::size_t next = at_; next < source_.size(); at_ = next)
      if (!is_python_space(next_code_point(source_, next))) return;
  }

  // Where the next tag of a block, an output or a comment begins.
  std::size_t next_tag() const {
    for (std::size_t at = at_; (at = source_.find('{', at)) != source_.npos; ++at)
      if (stands_at(at + 1, '%') || stands_at(at + 1, '{') || stands_at(at + 1, '#')) return at;
    return source_.size();
  }

  // The text from here to a tag, without the white space that the tag takes with it.
  void put_data(std::size_t tag) {
    std::string_view data = std::string_view(source_).substr(at_, tag - at_);
    if (stands_at(tag + 2, '-')) {
      data = strip_text(data, Side::right);
    } else if (trims_ && tag < source_.size() && !stands_at(tag + 1, '{') &&
               !stands_at(tag + 2, '+')) {
      const std::size_t line = data.rfind('\n') + 1;  // 0: there is none
      if ((line > 0 || line_starting_) && strip_text(data.substr(line), Side::left).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) put(Kind::data, at_, std::string(data));
  }

  void read_tag() {
    const std::size_t begin = at_;
    const char kind = source_[at_ + 1];
    at_ += 2;
    if (stands_at(at_, '-') || stands_at(at_, '+')) ++at_;
    if (kind == '#') return read_comment(begin);
    if (kind == '%') check_not_raw(begin);
    put(kind == '%' ? Kind::block_begin : Kind::output_begin, begin);
    line_starting_ = false;
    for (std::string open;;) {
      skip_space();
      if (open.empty() && end_tag(kind == '%' ? "%}" : "}}", kind == '%')) return;
      if (at_ == source_.size()) {
        if (!open.empty()) refuse(at_, concat("expected '", open.back(), "'"));
        refuse(begin, "this tag has no end");
      }
      read_token(open);
    }
  }

  void read_comment(std::size_t begin) {
    at_ = source_.find("#}", at_);
    if (at_ == source_.npos) refuse(begin, "this comment has no end");
    // A sign belongs to the end only where it does not belong to the beginning.
    if (at_ > begin + 2 + (stands_at(begin + 2, '-') || stands_at(begin + 2, '+') ? 1 : 0) &&
        (stands_at(at_ - 1, '-') || stands_at(at_ - 1, '+')))
      --at_;
    end_tag("#}", true);
  }

  // Takes the end of a tag, and the white space that it takes with it.
  bool end_tag(std::string_view end, bool is_block) {
    const std::size_t begin = at_;
    const bool minus = stands_at(at_, '-'), plus = is_block && stands_at(at_, '+');
    if (!rest().substr(minus || plus ? 1 : 0).starts_with(end)) return false;
    at_ += end.size() + (minus || plus ? 1 : 0);
    if (end != "#}") put(is_block ? Kind::block_end : Kind::output_end, begin);
    if (minus)
      skip_space();
    else if (trims_ && is_block && !plus && stands_at(at_, '\n'))
      ++at_;
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void check_not_raw(std::size_t begin) const {
    const std::string_view inside = strip_text(rest(), Side::left);
    if (inside.starts_with("raw") && (inside.size() == 3 || !continues_name(inside[3])))
      refuse(begin, "the statement \"raw\" is not supported");
  }

  void read_token(std::string& open) {
    const char c = source_[at_];
    const std::size_t begin = at_;
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_text();
    if (begins_name(c)) {
      while (at_ < source_.size() && continues_name(source_[at_])) ++at_;
      return put(Kind::name, begin, source_.substr(begin, at_ - begin));
    }
    for (const std::string_view sign : {"//", "**", "==", "!=", ">=", "<="})
      if (rest().starts_with(sign)) {
        at_ += sign.size();
        return put(Kind::sign, begin, std::string(sign));
      }
    if (std::string_view("+-/*%~[](){}><=.:|,").find(c) == std::string_view::npos) {
      std::size_t end = at_;
      next_code_point(source_, end);
      refuse(at_, concat("unexpected ", quoted_text(rest().substr(0, end - at_))));
    }
    ++at_;
    if (const std::size_t at = std::string_view("([{").find(c); at != std::string_view::npos) {
      open += ")]}"[at];
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) refuse(begin, concat("unexpected '", c, "'"));
      if (open.back() != c)
        refuse(begin, concat("unexpected '", c, "', expected '", open.back(), "'"));
      open.pop_back();
    }
    put(Kind::sign, begin, std::string(1, c));
  }

  // Digits that single underscores may part: where they end.
  std::size_t digits_end(std::size_t at, const auto& is_one) const {
    while (at < source_.size() &&
           (is_one(source_[at]) ||
            (source_[at] == '_' && at + 1 < source_.size() && is_one(source_[at + 1]))))
      ++at;
    return at;
  }

  void read_number() {
    const std::size_t begin = at_;
    const std::size_t whole = digits_end(at_, is_digit);
    std::size_t end = whole;
    const bool behind_point = begin > 0 && source_[begin - 1] == '.';
    if (!behind_point) {
      if (stands_at(end, '.') && end + 1 < source_.size() && is_digit(source_[end + 1]))
        end = digits_end(end + 1, is_digit);
      if (stands_at(end, 'e') || stands_at(end, 'E')) {
        const std::size_t power =
            end + 1 + (stands_at(end + 1, '+') || stands_at(end + 1, '-') ? 1 : 0);
        if (power < source_.size() && is_digit(source_[power])) end = digits_end(power, is_digit);
      }
    }
    if (end > whole) return put_real(end);
    if (source_[begin] != '0') return put_integer(begin, whole, 10);
    const char mark = begin + 1 < source_.size() ? static_cast<char>(source_[begin + 1] | 32) : ' ';
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    const auto is_one = [&](char c) {
      int digit = 0;
      return std::from_chars(&c, &c + 1, digit, base).ec == std::errc();
    };
    if (base != 10 && digits_end(begin + 2, is_one) > begin + 2)
      return put_integer(begin + 2, digits_end(begin + 2, is_one), base);
    put_integer(begin, digits_end(begin, [](char c) { return c == '0'; }), 10);
  }

  void put_integer(std::size_t first, std::size_t end, int base) {
    std::string digits = source_.substr(first, end - first);
    std::erase(digits, '_');
    std::int64_t number = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number, base).ec !=
        std::errc())
      refuse(at_, "an integer beyond 64 bits");
    put(Kind::number, at_, {}, number);
    at_ = end;
  }

  void put_real(std::size_t end) {
    const auto number = python_parse_float(source_.substr(at_, end - at_));
    put(Kind::number, at_, {}, *number);
    at_ = end;
  }

  void read_text() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (!stands_at(at_, quote)) {
      if (at_ == source_.size()) refuse(begin, "this string has no end");
      if (source_[at_] != '\\')
        text += source_[at_++];
      else
        read_escape(text);
    }
    ++at_;
    put(Kind::text, begin, std::move(text));
  }

  // Python's escapes, from the backslash.
  void read_escape(std::string& text) {
    if (at_ + 1 == source_.size()) refuse(at_, "this string has no end");
    const char c = source_[at_ + 1];
    constexpr std::string_view kNames = "\\'\"abfnrtv\n", kBytes = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t name = kNames.find(c);
    if (c == 'N') refuse(at_, "the escape \"\\N\" is not supported");
    const std::size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t point = 0;
    if (name < kBytes.size()) {
      text += kBytes[name];
      at_ += 2;
    } else if (name == kBytes.size()) {
      at_ += 2;  // a line that goes on
    } else if (width > 0) {
      const std::string digits = source_.substr(at_ + 2, width);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
      if (error != std::errc() || end != digits.data() + width || point > 0x10FFFF ||
          (0xD800 <= point && point < 0xE000))
        refuse(at_,
               concat("the escape \"\\", c, "\" needs ", width, " digits that are a character's"));
      append_utf8(text, point);
      at_ += 2 + width;
    } else if ('0' <= c && c <= '7') {
      const std::size_t first = ++at_;
      for (; at_ < first + 3 && at_ < source_.size() && '0' <= source_[at_] && source_[at_] <= '7';
           ++at_)
        point = point * 8 + static_cast<std::uint32_t>(source_[at_] - '0');
      append_utf8(text, point);
    } else {
      text += source_[at_++];
    }
  }

  const std::string& source_;
  bool trims_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<ChatToken> tokens_;
};

}  // namespace

std::string chat_plain_source(std::string_view source, ChatDialect dialect) {
  std::string plain;
  plain.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      plain += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      plain += '\n';
  }
  if (dialect == ChatDialect::chats && plain.ends_with('\n')) plain.pop_back();
  return plain;
}

std::vector<ChatToken> chat_tokens(const std::string& plain_source, ChatDialect dialect) {
  for (std::size_t at = 0; at < plain_source.size();) {
    const std::size_t begin = at;
    if (next_code_point(plain_source, at) == kReplacement &&
        plain_source.compare(begin, 3, "\xEF\xBF\xBD") != 0)
      throw ChatSyntaxError{begin, "not UTF-8"};
  }
  return Lexer(plain_source, dialect == ChatDialect::chats).tokens();
}

}  // namespace mt
