#include "base/option_config.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

static constexpr std::string_view kBlank = " \t";

static std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Reads one value, left to right.
class ValueReader {
 public:
  ValueReader(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  ConfigEntry read() {
    ConfigEntry entry;
    const std::string_view all = rest_;
    skip_blanks();
    if (rest_.starts_with('[')) {
      entry.list = true;
      read_list(entry.values);
    } else {
      entry.values.push_back(read_scalar(false));
    }
    const std::string_view used = all.substr(0, all.size() - rest_.size());
    skip_blanks();
    if (!rest_.empty() && !(rest_[0] == '#' && kBlank.find(rest_.data()[-1]) != kBlank.npos))
      stop("more after the value: ", rest_);
    entry.written = trim(used);
    return entry;
  }

 private:
  template <class... Parts>
  [[noreturn]] void stop(const Parts&... parts) const {
    fail(Exit::bad_config, where_, ": ", parts...);
  }

  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlank), rest_.size()));
  }

  bool take(char expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void read_list(std::vector<std::string>& values) {
    take('[');
    skip_blanks();
    if (take(']')) return;
    do {
      skip_blanks();
      values.push_back(read_scalar(true));
      skip_blanks();
    } while (take(','));
    if (!take(']')) stop("a list without its closing bracket");
  }

  std::string read_scalar(bool in_list) {
    if (take('"')) return read_double_quoted();
    if (take('\'')) return read_single_quoted();
    std::size_t end = in_list ? std::min(rest_.find_first_of(",[]{}"), rest_.size()) : rest_.size();
    for (std::size_t i = 0; i < end; ++i)
      if (rest_[i] == '#' && (i == 0 || kBlank.find(rest_[i - 1]) != kBlank.npos)) end = i;
    std::string text(trim(rest_.substr(0, end)));
    check_plain(text);
    rest_.remove_prefix(end);
    return text;
  }

  // Refuses plain text to which YAML gives another meaning than itself.
  void check_plain(const std::string& text) const {
    if (text.empty()) stop("no value; an empty text is written \"\", a list [A, B]");
    if (text == "null" || text == "~") stop(text, " is no value; leave the line out instead");
    if (std::string_view("&*!|>%@`{}[],\"'").find(text[0]) != std::string_view::npos ||
        text == "-" || text.starts_with("- ") || text.starts_with("? ") ||
        text.find(": ") != text.npos || text.ends_with(':'))
      stop(text, ": put this text in quotes");
  }

  std::string read_double_quoted() {
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') return text;
      text += c == '\\' ? read_escape() : c;
    }
    stop("a text without its closing quote");
  }

  char read_escape() {
    if (take('n')) return '\n';
    if (take('t')) return '\t';
    if (take('"')) return '"';
    if (take('\\')) return '\\';
    stop("an unknown escape; \\\\, \\\", \\n and \\t are known");
  }

  std::string read_single_quoted() {
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '\'' && !take('\'')) return text;
      text += c;
    }
    stop("a text without its closing quote");
  }

  std::string_view rest_;
  const std::string& where_;
};

ConfigEntry parse_config_value(std::string_view text, const std::string& where) {
  return ValueReader(text, where).read();
}

static ConfigEntry parse_line(std::string_view line, const std::string& where) {
  const std::size_t colon = line.find(':');
  if (kBlank.find(line[0]) != kBlank.npos || line.starts_with("- ") || colon == 0 ||
      colon == line.npos ||
      (colon + 1 < line.size() && kBlank.find(line[colon + 1]) == kBlank.npos))
    fail(Exit::bad_config, where, ": expected `option: value` at the start of a line, not ", line);
  const std::string key(trim(line.substr(0, colon)));
  ConfigEntry entry = parse_config_value(line.substr(colon + 1), where + ": " + key);
  entry.key = key;
  return entry;
}

std::vector<ConfigEntry> parse_config(std::string_view content, const std::string& path) {
  std::vector<ConfigEntry> entries;
  for (int number = 1; !content.empty(); ++number) {
    std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(line.size() + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view start = trim(line);
    if (start.empty() || start[0] == '#' || (number == 1 && start == "---")) continue;
    const std::string where = concat(path, ":", number);
    ConfigEntry entry = parse_line(line, where);
    entry.line = number;
    const auto earlier = std::ranges::find(entries, entry.key, &ConfigEntry::key);
    if (earlier != entries.end())
      fail(Exit::bad_config, where, ": ", entry.key, ": given in line ", earlier->line, " already");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string config_value(const std::string& text) {
  const auto plain = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           std::string_view("-_./+=").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain) && text != "null" && text != "-" &&
      text != "=")
    return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  }
  return quoted + '"';
}

}  // namespace mt
