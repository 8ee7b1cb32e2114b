#include "text/chat/chat_format.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

struct Spec {
  char fill = 0, align = 0, sign = 0, type = 0;  // 0: not said
  bool zero = false, commas = false;
  std::int64_t width = 0, precision = -1;
};

Spec parse_spec(std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^'; };
  const auto take = [&] {
    const char c = text.front();
    text.remove_prefix(1);
    return c;
  };
  const auto number = [&] {
    std::int64_t n = 0;
    while (!text.empty() && '0' <= text.front() && text.front() <= '9') n = n * 10 + (take() - '0');
    if (n > 1000) throw ChatFailure{"a width or precision beyond 1000"};
    return n;
  };
  if (text.size() > 1 && is_align(text[1])) spec.fill = take();
  if (!text.empty() && is_align(text.front())) spec.align = take();
  if (!text.empty() && (text.front() == '+' || text.front() == ' ' || text.front() == '-'))
    spec.sign = take();
  if (!text.empty() && text.front() == '0') spec.zero = take() == '0';
  if (spec.fill == 0) spec.fill = spec.zero ? '0' : ' ';
  spec.width = number();
  if (!text.empty() && text.front() == ',') spec.commas = take() == ',';
  if (!text.empty() && text.front() == '.') {
    take();
    spec.precision = number();
  }
  if (!text.empty()) spec.type = take();
  if (!text.empty()) throw ChatFailure{"Invalid format specifier"};
  return spec;
}

std::string digits_of(const ChatValue& value, const Spec& spec) {
  const std::optional<std::int64_t> whole = python_index(value);
  const char type = spec.type != 0 ? spec.type : whole ? 'd' : 'r';
  if (type == 'r' && spec.precision < 0) return python_real(*value.real());
  if (type == 'd') {
    if (!whole) throw ChatFailure{"Unknown format code 'd' for object of type 'float'"};
    return std::to_string(*whole);
  }
  char format[] = "%.*f";
  format[3] = type == 'r' ? 'g' : type == '%' ? 'f' : type;
  if (std::string_view("feg").find(format[3]) == std::string_view::npos)
    throw ChatFailure{concat("Unknown format code '", type, "'")};
  std::string out(1500, '\0');
  const double number = *python_number(value) * (type == '%' ? 100 : 1);
  const int size = std::snprintf(out.data(), out.size(), format,
                                 static_cast<int>(spec.precision < 0 ? 6 : spec.precision), number);
  out.resize(static_cast<std::size_t>(size));
  return type == '%' ? out + "%" : out;
}

std::string formatted_number(const ChatValue& value, const Spec& spec) {
  std::string digits = digits_of(value, spec), sign;
  if (digits.starts_with('-'))
    sign = "-", digits.erase(0, 1);
  else if (spec.sign == '+' || spec.sign == ' ')
    sign = std::string(1, spec.sign);
  auto whole =
      static_cast<std::int64_t>(std::min(digits.find_first_not_of("0123456789"), digits.size()));
  const auto commas = [&] { return spec.commas ? (whole - 1) / 3 : 0; };
  if (spec.zero && spec.align == 0)
    for (; std::ssize(sign) + std::ssize(digits) + commas() < spec.width; ++whole)
      digits.insert(0, "0");
  if (spec.commas)
    for (std::int64_t at = whole - 3; at > 0; at -= 3)
      digits.insert(static_cast<std::size_t>(at), ",");
  return sign + digits;
}

std::string formatted(const ChatValue& value, std::string_view text) {
  if (text.empty()) return python_text(value);
  const Spec spec = parse_spec(text);
  const bool is_number = python_number(value).has_value();  // a truth value is 1 or 0
  std::string out;
  if (is_number) {
    out = formatted_number(value, spec);
  } else if (value.is_text()) {
    if (spec.type != 0 && spec.type != 's')
      throw ChatFailure{concat("Unknown format code '", spec.type, "' for object of type 'str'")};
    if (spec.commas) throw ChatFailure{"Cannot specify ',' with 's'."};
    if (spec.sign != 0) throw ChatFailure{"Sign not allowed in string format specifier"};
    const std::string shown = python_text(value);
    std::int64_t left = spec.precision;
    for (const std::string_view point : each_point(shown))
      if (left-- != 0) out += point;
  } else {
    throw ChatFailure{"unsupported format string passed to " + python_type(value)};
  }
  const std::int64_t room = std::max<std::int64_t>(spec.width - count_points(out), 0);
  const char align = spec.align != 0 ? spec.align : is_number ? '>' : '<';
  const std::int64_t before = align == '>' ? room : align == '^' ? room / 2 : 0;
  return std::string(static_cast<std::size_t>(before), spec.fill) + out +
         std::string(static_cast<std::size_t>(room - before), spec.fill);
}

// How the fields of a format are numbered, which is in one way.
struct Numbering {
  std::size_t next = 0;
  bool by_hand = false, by_itself = false;
};

// "name", "0" or "", with ".attribute" and "[item]" behind.
ChatValue field(ChatRun& run, std::string_view path, const ChatArguments& arguments,
                Numbering& numbering) {
  const std::size_t end = std::min(path.find_first_of(".["), path.size());
  const std::string_view first = path.substr(0, end);
  ChatValue value;
  if (first.empty() || is_digits(first)) {
    const auto number = first.empty() ? std::nullopt : python_parse_int(first, 10);
    (number ? numbering.by_hand : numbering.by_itself) = true;
    if (numbering.by_hand && numbering.by_itself)
      throw ChatFailure{"fields with a number and fields without one"};
    const std::size_t at = number ? static_cast<std::size_t>(*number) : numbering.next++;
    if (at >= arguments.positional.size())
      throw ChatFailure{
          concat("Replacement index ", at, " out of range for positional args tuple")};
    value = arguments.positional[at];
  } else {
    const auto found =
        std::ranges::find(arguments.named, first, &std::pair<std::string, ChatValue>::first);
    if (found == arguments.named.end()) throw ChatFailure{quoted_text(first)};
    value = found->second;
  }
  path.remove_prefix(end);
  while (!path.empty()) {
    const bool is_item = path.front() == '[';
    const std::size_t close = is_item ? path.find(']') : path.find_first_of(".[", 1);
    if (is_item && close == path.npos) throw ChatFailure{"expected ']' before end of string"};
    const std::string_view name = path.substr(1, close == path.npos ? close : close - 1);
    const auto number = is_item && is_digits(name) ? python_parse_int(name, 10) : std::nullopt;
    value = is_item ? chat_item(run, value, number ? ChatValue(*number) : ChatValue(name))
                    : chat_attribute(run, value, std::string(name));
    path = close == path.npos ? "" : path.substr(close + (is_item ? 1 : 0));
    if (is_item && !path.empty() && path.front() != '.' && path.front() != '[')
      throw ChatFailure{"Only '.' or '[' may follow ']' in format field specifier"};
  }
  return value;
}

}  // namespace

std::string python_format(ChatRun& run, std::string_view format, const ChatArguments& arguments) {
  std::string out;
  Numbering numbering;
  while (!format.empty()) {
    const char c = format.front();
    format.remove_prefix(1);
    if (c != '{' && c != '}') {
      out += c;
    } else if (format.starts_with(c)) {
      out += c;
      format.remove_prefix(1);
    } else if (c == '}') {
      throw ChatFailure{"Single '}' encountered in format string"};
    } else {
      const std::size_t end = format.find('}');
      if (end == format.npos) throw ChatFailure{"expected '}' before end of string"};
      std::string_view inside = format.substr(0, end);
      if (inside.find('{') != inside.npos)
        throw ChatFailure{"a field in a field of format() is not supported"};
      format.remove_prefix(end + 1);
      const std::size_t colon = std::min(inside.find(':'), inside.size());
      const std::string_view spec = inside.substr(std::min(colon + 1, inside.size()));
      inside = inside.substr(0, colon);
      const std::size_t mark = std::min(inside.find('!'), inside.size());
      ChatValue value = field(run, inside.substr(0, mark), arguments, numbering);
      if (mark < inside.size()) {
        const std::string_view conversion = inside.substr(mark + 1);
        if (conversion != "r" && conversion != "s")
          throw ChatFailure{"Unknown conversion specifier"};
        value = conversion == "r" ? python_repr(value) : python_text(value);
      }
      out += formatted(value, spec);
      if (out.size() > ChatRun::kOutput) throw ChatFailure{"a text of more than 64 MiB"};
    }
  }
  return out;
}

}  // namespace mt
