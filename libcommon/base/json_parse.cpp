#include "base/json_parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/json_place.h"
#include "base/lfs_pointer.h"

namespace mt {
namespace {

constexpr std::string_view kInfinity = "Infinity", kNaN = "NaN", kBeyond = "1e308";

bool is_of_number(char c) {
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

std::size_t string_end(std::string_view text, std::size_t at) {  // of one whose quote is at `at`
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

bool fits(std::string_view number) {
  const char* const end = number.data() + number.size();
  if (number.find_first_of(".eE") == number.npos) {
    std::int64_t with_sign = 0;
    std::uint64_t without = 0;
    return std::from_chars(number.data(), end, with_sign).ec == std::errc() ||
           std::from_chars(number.data(), end, without).ec == std::errc();
  }
  return true;
}

// The number as simdjson takes it.  What is no number stays as it is.
void append_number(std::string_view number, std::string& out) {
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [parsed, error] = std::from_chars(number.data(), end, value);
  if (parsed != end || (error == std::errc() && fits(number))) {
    out += number;
  } else if (error == std::errc()) {
    char digits[32];
    out.append(
        digits,
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr);
  } else {  // from_chars does not tell what is too large from what is too small
    value = std::strtod(std::string(number).c_str(), nullptr);
    if (number.starts_with('-')) out += '-';
    out += std::isinf(value) ? kBeyond : "0.0";
  }
}

}  // namespace

std::string with_plain_numbers(std::string_view content, Nan nan) {
  std::string out;
  out.reserve(content.size());
  for (std::size_t at = 0; at < content.size();) {
    const std::string_view rest = content.substr(at);
    std::size_t size = 1;
    if (rest.starts_with('"')) {
      size = string_end(content, at) - at;
      out += rest.substr(0, size);
    } else if (rest.starts_with(kInfinity)) {
      size = kInfinity.size();
      out += kBeyond;
    } else if (nan == Nan::null && rest.starts_with(kNaN)) {
      size = kNaN.size();
      out += "null";
    } else if (rest[0] == '-' && rest.substr(1).starts_with(kInfinity)) {
      out += '-';
    } else if (is_of_number(rest[0])) {
      while (size < rest.size() && is_of_number(rest[size])) ++size;
      append_number(rest.substr(0, size), out);
    } else {
      out += rest[0];
    }
    at += size;
  }
  return out;
}

simdjson::simdjson_result<simdjson::dom::element> parse_json(simdjson::dom::parser& parser,
                                                             std::string_view content, Nan nan) {
  auto root = parser.parse(simdjson::padded_string(content));
  if (root.error() == simdjson::SUCCESS || root.error() == simdjson::UTF8_ERROR) return root;
  const std::string plain = with_plain_numbers(content, nan);
  if (plain == content) return root;
  return parser.parse(simdjson::padded_string(plain));
}

void fail_json(std::string_view content, const std::string& path, simdjson::error_code error,
               const char* expected) {
  refuse_lfs_pointer(content, path);
  const std::string place = json_place(content);
  if (expected != nullptr && !content.empty() && place == "byte 0: ")
    fail(Exit::bad_data, path, ": is no JSON, expected ", expected);
  fail(Exit::bad_data, path, ": ", place, simdjson::error_message(error));
}

}  // namespace mt
