#include "text/chat/chat_strings.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat/chat_failure.h"
#include "text/unicode/unicode.h"

namespace mt {

static bool continues_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::int64_t count_points(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !continues_point(byte); });
}

static constexpr std::size_t kLargest = std::size_t{64} << 20;  // bytes
static constexpr std::size_t kMostParts = std::size_t{4} << 20;

static void check_parts(std::size_t parts) {
  if (parts > kMostParts) throw ChatFailure{"a text in more than 4 Mi parts"};
}

std::vector<std::string_view> each_point(std::string_view text) {
  check_parts(text.size() / 4);
  std::vector<std::string_view> points;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_code_point(text, at);
    points.push_back(text.substr(begin, at - begin));
  }
  return points;
}

std::string_view strip_text(std::string_view text, Side side,
                            std::optional<std::string_view> chars) {
  const auto goes = [&](std::string_view point) {
    if (chars) return chars->find(point) != std::string_view::npos;
    std::size_t at = 0;
    return is_python_space(next_code_point(point, at));
  };
  if (side != Side::right)
    for (std::size_t at = 0; !text.empty(); at = 0) {
      next_code_point(text, at);
      if (!goes(text.substr(0, at))) break;
      text.remove_prefix(at);
    }
  if (side != Side::left)
    while (!text.empty()) {
      std::size_t begin = text.size() - 1;
      while (begin > 0 && continues_point(text[begin])) --begin;
      if (!goes(text.substr(begin))) break;
      text.remove_suffix(text.size() - begin);
    }
  return text;
}

static bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return (c & 0x80) != 0; });
}

using CaseMap = std::unique_ptr<UCaseMap, decltype(&ucasemap_close)>;
using Mapping = std::int32_t (*)(const UCaseMap*, char*, std::int32_t, const char*, std::int32_t,
                                 UErrorCode*);

static std::int32_t to_title(const UCaseMap* map, char* out, std::int32_t room, const char* in,
                             std::int32_t size, UErrorCode* error) {
  return ucasemap_utf8ToTitle(const_cast<UCaseMap*>(map), out, room, in, size, error);
}

// By the mappings of no language (Unicode 15, 5.18).
static std::string map_case(std::string_view text, Mapping mapping) {
  UErrorCode error = U_ZERO_ERROR;
  const CaseMap map(ucasemap_open("", 0, &error), &ucasemap_close);
  if (U_FAILURE(error)) fail(Exit::internal, "ICU: ", u_errorName(error));
  std::string out(text.size() + 16, '\0');
  for (;;) {
    error = U_ZERO_ERROR;
    const std::int32_t size = mapping(map.get(), out.data(), static_cast<std::int32_t>(out.size()),
                                      text.data(), static_cast<std::int32_t>(text.size()), &error);
    const bool fits = static_cast<std::size_t>(size) <= out.size();
    out.resize(static_cast<std::size_t>(size));
    if (fits && U_SUCCESS(error)) return out;
    if (error != U_BUFFER_OVERFLOW_ERROR) fail(Exit::internal, "ICU: ", u_errorName(error));
  }
}

std::string upper_text(std::string_view text) {
  if (!is_ascii(text)) return map_case(text, ucasemap_utf8ToUpper);
  std::string out(text);
  for (char& c : out)
    if ('a' <= c && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

std::string lower_text(std::string_view text) {
  if (!is_ascii(text)) return map_case(text, ucasemap_utf8ToLower);
  std::string out(text);
  for (char& c : out)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string capitalize_text(std::string_view text) {
  std::size_t at = 0;
  if (text.empty()) return {};
  next_code_point(text, at);
  return map_case(text.substr(0, at), to_title) + lower_text(text.substr(at));
}

std::string title_text(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (const std::string_view point : each_point(text)) {
    std::size_t at = 0;
    const auto code = static_cast<UChar32>(next_code_point(point, at));
    out += in_word ? lower_text(point) : map_case(point, to_title);
    in_word = u_hasBinaryProperty(code, UCHAR_CASED) != 0;
  }
  return out;
}

bool is_digits(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto code = static_cast<UChar32>(next_code_point(text, at));
    const int kind = u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE);
    if (kind != U_NT_DECIMAL && kind != U_NT_DIGIT) return false;
  }
  return !text.empty();
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         std::int64_t most) {
  std::vector<std::string_view> parts;
  for (std::size_t end; most != 0 && (end = text.find(separator)) != text.npos; --most) {
    check_parts(parts.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          std::int64_t most) {
  std::vector<std::string_view> parts;
  for (std::size_t at; most != 0 && (at = text.rfind(separator)) != text.npos; --most) {
    check_parts(parts.size());
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (text = strip_text(text, Side::left); !text.empty(); text = strip_text(text, Side::left)) {
    check_parts(parts.size());
    if (most-- == 0) {
      parts.push_back(strip_text(text, Side::right));
      break;
    }
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); end = at)
      if (is_python_space(next_code_point(text, at))) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0, at = 0; begin < text.size();) {
    const std::size_t end = at;
    const char32_t point = next_code_point(text, at);
    const bool breaks = (0xA <= point && point <= 0xD) || (0x1C <= point && point <= 0x1E) ||
                        point == 0x85 || point == 0x2028 || point == 0x2029;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    if (!breaks && at < text.size()) continue;
    check_parts(lines.size());
    lines.push_back(text.substr(begin, (breaks && !keep_ends ? end : at) - begin));
    begin = at;
  }
  return lines;
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view by,
                         std::int64_t most) {
  std::string out;
  const std::int64_t found = count_text(text, old),
                     times = most < 0 ? found : std::min(most, found);
  if (by.size() > old.size() &&
      static_cast<std::size_t>(times) > kLargest / (by.size() - old.size()))
    throw ChatFailure{"a text of more than 64 MiB"};
  if (old.empty()) {  // between all characters, and at both ends
    for (const std::string_view point : each_point(text)) {
      if (most != 0) out += by;
      if (most != 0) --most;
      out += point;
    }
    if (most != 0) out += by;
    return out;
  }
  const std::vector<std::string_view> parts = split_text(text, old, most);
  for (std::size_t i = 0; i < parts.size(); ++i) (i > 0 ? out.append(by) : out).append(parts[i]);
  return out;
}

std::int64_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return count_points(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
  return out;
}

// Whether repr() shows it as it is (str.isprintable()).
static bool is_printable(char32_t point) {
  if (point == ' ') return true;
  constexpr auto kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(point)) & kHidden) == 0;
}

static void append_hex(std::string& out, char32_t point) {
  const int digits = point < 0x100 ? 2 : point < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[(point >> shift) & 15];
}

std::string quoted_text(std::string_view text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    if (point == '\n')
      out += "\\n";
    else if (point == '\r')
      out += "\\r";
    else if (point == '\t')
      out += "\\t";
    else if (point == '\\' || point == static_cast<char32_t>(quote))
      (out += '\\') += static_cast<char>(point);
    else if (is_printable(point))
      out += text.substr(begin, at - begin);
    else
      append_hex(out, point);
  }
  return out += quote;
}

}  // namespace mt
