#include "ckpt/yaml.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/allowance.h"
#include "base/error.h"
#include "base/utf8.h"

namespace mt {
namespace {

constexpr std::uint64_t kNodeBytes = 256;  // of a value, a key's included

template <class T>
bool reads_as(std::string_view text, T& number, int base = 10) {
  const char* const end = text.data() + text.size();
  if constexpr (std::is_integral_v<T>)
    return std::from_chars(text.data(), end, number, base).ptr == end && !text.empty();
  else
    return std::from_chars(text.data(), end, number).ptr == end && !text.empty();
}

// What a plain scalar says.
PyValue plain_value(const std::string& text) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
  };
  if (is_one_of({"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})) return true;
  if (is_one_of({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})) return false;
  const bool minus = text[0] == '-';
  std::string digits = text.substr(minus || text[0] == '+');
  if (is_one_of({".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") {
    const double infinity = std::numeric_limits<double>::infinity();
    return minus ? -infinity : infinity;
  }
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9'))) return text;
  std::erase(digits, '_');
  std::int64_t whole = 0;
  if (reads_as(digits, whole) ||
      (digits.starts_with("0x") && reads_as(std::string_view(digits).substr(2), whole, 16)))
    return minus ? -whole : whole;
  double real = 0;
  if (reads_as(digits, real)) return minus ? -real : real;
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path)
      : text_(text), path_(path), allowance_(text.size()) {}

  PyValue read() {
    skip_blank();
    if (rest().starts_with("%")) stop("a directive, which is not read");
    if (rest().starts_with("---") && column() == 0 &&
        (at_ + 3 == text_.size() || is_space(at_ + 3)))
      at_ += 3;
    skip_blank();
    PyValue value = at_ == text_.size() ? PyValue() : block(0);
    skip_blank();
    if (at_document_end()) stop("a second document; one is expected");
    if (at_ < text_.size()) stop("not a part of what stands before it");
    return value;
  }

 private:
  // --- Places ---

  std::string_view rest() const { return text_.substr(at_); }
  bool is_space(std::size_t at) const {
    return text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\n' || text_[at] == '\r';
  }
  bool at_line_end() const { return at_ == text_.size() || text_[at_] == '\n'; }
  std::size_t line_start() const {
    const std::size_t before = at_ == 0 ? std::string_view::npos : text_.rfind('\n', at_ - 1);
    return before == std::string_view::npos ? 0 : before + 1;
  }
  std::size_t column() const { return at_ - line_start(); }
  bool take(char expected) {
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  // "- ", "? " or ": ": a sign that stands alone.
  bool has_sign(char sign) const {
    return at_ < text_.size() && text_[at_] == sign &&
           (at_ + 1 == text_.size() || is_space(at_ + 1));
  }

  bool at_document_end() const {
    return column() == 0 && (rest().starts_with("...") || rest().starts_with("---"));
  }

  template <class... Parts>
  [[noreturn]] void stop(const Parts&... parts) const {
    const auto line = std::ranges::count(text_.substr(0, at_), '\n') + 1;
    fail(Exit::bad_data, path_, ":", line, ": ", parts...);
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    if (at_ < text_.size() && text_[at_] == '#' && (at_ == 0 || is_space(at_ - 1)))
      at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_blank() {
    for (skip_spaces(); at_ < text_.size() && text_[at_] == '\n'; skip_spaces()) ++at_;
  }

  // --- Nodes ---

  class Deeper {
   public:
    explicit Deeper(Reader& reader) : reader_(reader) {
      if (++reader_.depth_ > kMaxYamlNesting) reader_.stop("nests too deep");
      reader_.allowance_.take(kNodeBytes, reader_.path_);
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Reader& reader_;
  };

  // A node that begins here, whose lines have at least this indentation.
  PyValue block(std::size_t indentation) {
    const Deeper deeper(*this);
    if (has_sign('?')) stop("a complex key, which is not read");
    if (has_sign('-')) return sequence();
    if (std::string key; next_key(key)) return mapping();
    return value(indentation);
  }

  // What stands behind a key or a "- " on the same line, or on the next ones, further in.
  PyValue behind(std::size_t parent, bool dashes_may_align) {
    const std::string anchor = properties();
    PyValue found;
    if (!at_line_end()) {
      const Deeper deeper(*this);
      found = value(parent + 1);
    } else {
      skip_blank();
      const bool aligned = dashes_may_align && column() == parent && has_sign('-');
      if (at_ < text_.size() && (column() > parent || aligned)) found = block(parent + 1);
    }
    if (!anchor.empty()) anchors_[anchor] = found;
    return found;
  }

  // Skips tags, and gives the name of an anchor.
  std::string properties() {
    std::string anchor;
    for (skip_spaces(); at_ < text_.size() && (text_[at_] == '!' || text_[at_] == '&');
         skip_spaces()) {
      const bool named = text_[at_] == '&';
      const std::string name = word();
      if (named) anchor = name;
    }
    return anchor;
  }
  // Behind a sign, up to the next space.
  std::string word() {
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && !is_space(at_) && !(flow_ > 0 && is_flow_sign(text_[at_]))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  PyValue sequence() {
    const std::size_t own = column();
    std::vector<PyValue> items;
    while (at_ < text_.size() && column() == own && has_sign('-')) {
      ++at_;
      skip_spaces();
      if (at_line_end()) {
        items.push_back(behind(own, false));
      } else {
        const std::string anchor = properties();
        items.push_back(at_line_end() ? behind(own, false) : block(own + 1));
        if (!anchor.empty()) anchors_[anchor] = items.back();
      }
      skip_blank();
    }
    if (at_ < text_.size() && column() > own) stop("is indented otherwise than what it belongs to");
    return PyValue::list(std::move(items));
  }

  PyValue mapping() {
    const std::size_t own = column();
    PyValue dict = PyValue::dict();
    std::string key;
    while (at_ < text_.size() && column() == own && next_key(key)) {
      take_key();
      dict.set_item(key, behind(own, true));
      allowance_.take(key.size(), path_);
      skip_blank();
    }
    const bool aligned = has_sign('-') || at_document_end();
    if (at_ < text_.size() && column() >= own && !(column() == own && aligned))
      stop("expected `key: value`");
    return dict;
  }

  // Whether a key stands here, with its colon on the same line.  It stays to be taken.
  bool next_key(std::string& key) {
    const std::size_t begin = at_;
    bool found = false;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      key = quoted();
      const bool one_line = text_.substr(begin, at_ - begin).find('\n') == std::string_view::npos;
      while (take(' ')) continue;
      found = one_line && has_sign(':');
    } else {
      constexpr std::string_view kNoKey = "[]{}&*!|>%@`,#";
      if (at_ < text_.size() && kNoKey.find(text_[at_]) == kNoKey.npos)
        while (!at_line_end() && !has_sign(':') && !(text_[at_] == '#' && is_space(at_ - 1))) ++at_;
      found = has_sign(':') && at_ > begin;
      key = text_.substr(begin, at_ - begin);
      key.erase(std::min(key.find_last_not_of(" \t") + 1, key.size()));
    }
    key_end_ = at_;
    at_ = begin;
    return found;
  }
  void take_key() { at_ = key_end_ + 1; }  // and its colon

  // A scalar, a flow collection or an alias.
  PyValue value(std::size_t indentation) {
    const std::string anchor = properties();
    if (flow_ > 0) {
      skip_blank();
      if (at_ == text_.size()) stop("a collection without its closing bracket");
    }
    PyValue found;
    if (at_line_end() && flow_ == 0) {
      skip_blank();
      if (at_ < text_.size() && column() >= indentation) found = block(indentation);
      if (!anchor.empty()) anchors_[anchor] = found;
      return found;
    }
    if (text_[at_] == '*') {
      const std::string name = word();
      const auto known = anchors_.find(name);
      if (known == anchors_.end()) stop("*", name, ": is no anchor before");
      found = known->second;
    } else if (text_[at_] == '[') {
      found = flow_sequence();
    } else if (text_[at_] == '{') {
      found = flow_mapping();
    } else if (text_[at_] == '"' || text_[at_] == '\'') {
      found = quoted();
    } else if (flow_ == 0 && (text_[at_] == '|' || text_[at_] == '>')) {
      found = literal(indentation);
    } else {
      found = plain_value(plain(indentation));
    }
    if (!anchor.empty()) anchors_[anchor] = found;
    if (flow_ == 0) {
      skip_spaces();
      if (!at_line_end()) stop("more after the value");
    }
    return found;
  }

  // --- Flow collections ---

  static bool is_flow_sign(char c) {
    return std::string_view(",[]{}").find(c) != std::string_view::npos;
  }

  PyValue flow_item() {
    skip_blank();
    if (at_ == text_.size()) stop("a collection without its closing bracket");
    const Deeper deeper(*this);
    if (is_flow_sign(text_[at_]) && text_[at_] != '[' && text_[at_] != '{') return {};
    PyValue item = value(0);
    skip_blank();
    return item;
  }

  PyValue flow_sequence() {
    ++flow_;
    take('[');
    std::vector<PyValue> items;
    for (skip_blank(); !take(']'); skip_blank()) {
      items.push_back(flow_item());
      if (at_ == text_.size()) stop("a collection without its closing bracket");
      if (!take(',') && text_[at_] != ']') stop("expected , or ] in a list");
    }
    --flow_;
    return PyValue::list(std::move(items));
  }

  PyValue flow_mapping() {
    ++flow_;
    take('{');
    PyValue dict = PyValue::dict();
    for (skip_blank(); !take('}'); skip_blank()) {
      if (at_ == text_.size()) stop("a mapping without its closing brace");
      const bool in_quotes = text_[at_] == '"' || text_[at_] == '\'';
      const std::string key = in_quotes ? quoted() : plain(0);
      skip_blank();
      dict.set_item(key, take(':') ? flow_item() : PyValue());
      allowance_.take(kNodeBytes + key.size(), path_);
      if (at_ == text_.size()) stop("a mapping without its closing brace");
      if (!take(',') && text_[at_] != '}') stop("expected , or } in a mapping");
    }
    --flow_;
    return dict;
  }

  // --- Scalars ---

  // Up to what ends it; further lines, further in, are folded.
  std::string plain(std::size_t indentation) {
    std::string found;
    for (;;) {
      const std::size_t begin = at_;
      while (!at_line_end() && !(text_[at_] == '#' && at_ > 0 && is_space(at_ - 1)) &&
             !(flow_ > 0 && (is_flow_sign(text_[at_]) || has_sign(':'))) &&
             !(flow_ == 0 && has_sign(':')))
        ++at_;
      if (at_ == begin) stop("expected a value");
      if (flow_ == 0 && has_sign(':')) stop("a value that holds `: ` stands in quotes");
      std::string_view part = text_.substr(begin, at_ - begin);
      part = part.substr(0, part.find_last_not_of(" \t\r") + 1);
      found += part;
      const std::size_t end = at_;
      skip_blank();
      const auto lines = std::ranges::count(text_.substr(end, at_ - end), '\n');
      const bool more = at_ < text_.size() && lines > 0 &&
                        (flow_ > 0 ? !is_flow_sign(text_[at_]) && !has_sign(':')
                                   : column() >= std::max<std::size_t>(indentation, 1));
      if (!more) {
        at_ = end;
        return found;
      }
      found += lines == 1 ? " " : std::string(static_cast<std::size_t>(lines - 1), '\n');
    }
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string found;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == quote) {
        if (quote == '"' || !take('\'')) return found;
        found += '\'';
      } else if (c == '\\' && quote == '"') {
        escape(found);
      } else if (c == '\n') {
        fold(found);
      } else {
        found += c;
      }
    }
    stop("a text without its closing quote");
  }

  // A line end in quotes is a space, an empty line a line end.
  void fold(std::string& found) {
    found.erase(found.find_last_not_of(" \t\r") + 1);
    std::size_t lines = 0;
    for (; at_ < text_.size() && is_space(at_); ++at_) lines += text_[at_] == '\n';
    found += lines == 0 ? " " : std::string(lines, '\n');
  }

  void escape(std::string& found) {
    if (at_ == text_.size()) stop("a text without its closing quote");
    const char c = text_[at_++];
    if (c == '\n') {
      while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
      return;
    }
    constexpr std::string_view kNames = "0abtnvfre \"/\\\t",
                               kMeanings("\0\a\b\t\n\v\f\r\x1b \"/\\\t", 14);
    if (const std::size_t at = kNames.find(c); at != kNames.npos)
      return void(found += kMeanings[at]);
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t code = c == 'N' ? 0x85 : c == '_' ? 0xA0 : c == 'L' ? 0x2028 : 0x2029;
    if (digits > 0) {
      const std::string_view number = rest().substr(0, digits);
      if (number.size() < digits || !reads_as(number, code, 16) || code > 0x10FFFF)
        stop("expected ", digits, " hexadecimal digits behind \\", c);
      at_ += digits;
    } else if (c != 'N' && c != '_' && c != 'L' && c != 'P') {
      stop("an unknown escape");
    }
    append_utf8(found, code);
  }

  // "|" and ">": lines further in than the parent, as they are, or folded.
  std::string literal(std::size_t indentation) {
    const bool folds = text_[at_] == '>';
    const std::size_t line_end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view header = text_.substr(at_ + 1, line_end - at_ - 1);
    const bool strips = header.find('-') != header.npos, keeps = header.find('+') != header.npos;
    at_ = line_end;
    std::string found;
    std::size_t own = 0;  // their indentation, known by the first
    while (at_ < text_.size()) {
      const std::size_t begin = at_ + 1, end = std::min(text_.find('\n', begin), text_.size());
      std::string_view line =
          begin > text_.size() ? std::string_view() : text_.substr(begin, end - begin);
      const std::size_t first = line.find_first_not_of(" \r");
      if (first != line.npos) {
        if (own == 0) own = std::max(first, std::max<std::size_t>(indentation, 1));
        if (first < own) break;
      }
      line = line.substr(std::min(own, line.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      found += concat(line, folds && first != line.npos ? " " : "\n");
      at_ = end;
    }
    if (keeps) return found;
    found.erase(found.find_last_not_of(" \n") + 1);
    return strips || found.empty() ? found : found + "\n";
  }

  std::string_view text_;
  const std::string& path_;
  Allowance allowance_;
  std::size_t at_ = 0, key_end_ = 0;
  int depth_ = 0, flow_ = 0;
  std::map<std::string, PyValue> anchors_;
};

}  // namespace

PyValue parse_yaml(std::string_view text, const std::string& path) {
  return Reader(text, path).read();
}

}  // namespace mt
