#include "base/json.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace mt {

void JsonWriter::separate() {
  if (comma_) text_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  text_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw_key(std::string_view json) {
  separate();
  const bool is_text = json.starts_with('"');
  if (!is_text) text_ += '"';
  text_ += json;
  text_ += is_text ? ":" : "\":";
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

template <class T>
JsonWriter& JsonWriter::write_real(T number) {
  if (!std::isfinite(number)) return null();
  char digits[32];
  const std::string_view shortest(digits,
                                  std::to_chars(digits, digits + sizeof digits, number).ptr);
  raw(shortest);
  if (of_reals_ == Wholes::pointed && shortest.find_first_of(".e") == shortest.npos) text_ += ".0";
  return *this;
}

JsonWriter& JsonWriter::value(double number) { return write_real(number); }
JsonWriter& JsonWriter::value(float number) { return write_real(number); }

static void append_escaped(std::string& out, char32_t point) {
  switch (point) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (point < 0x20) {
    out += "\\u00";
    out += "0123456789abcdef"[point >> 4];
    out += "0123456789abcdef"[point & 15];
  } else {
    append_utf8(out, point);
  }
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  for (std::size_t at = 0; at < text.size();) append_escaped(text_, next_code_point(text, at));
  text_ += '"';
  return *this;
}

}  // namespace mt
